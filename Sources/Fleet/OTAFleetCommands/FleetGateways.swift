import ArgumentParser
import OTACommands
import OTAFleet
import OTAGateway
import OTAStore

/// A gateway of the fleet in the result of a command.
struct FleetGateway: Encodable, Sendable {
    let name, instance, software: String
    /// The maximum number of updates at the same time, the number of updates under way, and the number of devices in range.
    let slots, updating, heard: Int
    let lastError, at: String?

    init(_ record: GatewayRecord) {
        name = record.holder.gateway.text
        instance = record.holder.instance.text
        software = record.software
        slots = record.slots
        updating = record.pushing
        heard = record.heard
        lastError = record.lastError
        at = record.at?.description
    }
}

extension FleetStore {
    /// Returns the gateways' records that have not expired. Calls `refused` with the name and the error of each record that cannot be parsed
    /// or that has the name of another gateway.
    func gateways(_ refused: (RecordName, FleetError) -> Void) async throws -> [GatewayRecord] {
        var gateways: [GatewayRecord] = []
        for stored in try await records(in: .gateways) {
            do throws(FleetError) {
                let record = try GatewayRecord(parsing: stored.bytes)
                guard record.holder.gateway.text == stored.key.name.description else {
                    throw FleetError(.malformed, "it is the record of the gateway \(record.holder.gateway)")
                }
                gateways.append(record)
            } catch {
                refused(stored.key.name, error)
            }
        }
        return gateways.sorted { $0.holder.gateway < $1.holder.gateway }
    }
}

/// The command `fleet gateways`, which lists the gateways.
struct FleetGateways: Command {
    static let name = "fleet gateways"
    static let configuration = CommandConfiguration(
        commandName: "gateways", abstract: "List the gateways that run, with their load and their last error.",
        discussion: """
            Example: otaflash fleet gateways

            A gateway writes its record every 30 s. A gateway that has not written its record for 90 s is not in the list. The records \
            are not signed. The list has these columns, among others:

              last seen  the age of the record
              instance     identifies one run of the gateway; it changes at each start
              updates  the updates under way, and the maximum ('gateway run --at-once')
              devices  the number of devices in range
            """)

    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    /// Returns the age of a record, such as `12 s ago`. The clocks of two machines can differ.
    private static func age(of time: Timestamp?) -> String? {
        guard let time, let now = WallClock.now() else { return nil }
        return "\(max(0, now.seconds - time.seconds)) s ago"
    }

    func answer(_ console: Console) async throws -> FleetGatewaysAnswer {
        let records = try await store.withStore(for: console) { store in
            try await store.gateways { name, error in
                console.warn("the record of the gateway \(name) is ignored: \(error.context)", hint: error.failure.hint)
            }
        }
        return FleetGatewaysAnswer(
            gateways: records.map { FleetGateway($0) }, ages: records.map { Self.age(of: $0.at) })
    }
}

/// The result of `fleet gateways`.
struct FleetGatewaysAnswer: TableAnswer {
    let gateways: [FleetGateway]
    /// The age of each gateway's record, as text; nil if it is unknown.
    let ages: [String?]

    private enum CodingKeys: CodingKey { case gateways }

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !gateways.isEmpty else { return ["no gateways"] }
        return TextTable(
            [.identifier("gateway"), "instance", "version", "last seen", "updates", "devices", "last error"],
            zip(gateways, ages).map { gateway, age in
                [
                    gateway.name, gateway.instance, gateway.software, age ?? "-",
                    "\(gateway.updating) of \(gateway.slots)", "\(gateway.heard)", gateway.lastError ?? "-",
                ]
            }
        ).lines(fitting: width)
    }
}
