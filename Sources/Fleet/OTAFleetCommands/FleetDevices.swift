public import ArgumentParser
import OTACommands
import OTAFirmware
public import OTAFleet
import OTAStore

extension DeviceRecord.State: ExpressibleByArgument {}

/// A device of the fleet in the result of a command.
struct FleetDevice: Encodable, Sendable {
    let id, state: String
    let product, version, rollout, gateway, phase, reason, noUpdateBecause, since, at: String?
    let reset: Reset?
    let attempt: Int?
    let groups: [String]

    /// The last reset of the device that an operator has signed.
    struct Reset: Encodable, Sendable {
        let at, signer: String
    }

    /// - Parameter judge: nil if no operator's key is known: the result then shows neither the obstacle nor the reset.
    init(_ record: DeviceRecord, _ judge: DeviceJudge? = nil, _ reset: Reset? = nil) {
        noUpdateBecause = judge?.obstacle(of: record)
        self.reset = reset ?? judge?.reset(of: record)
        id = record.device.text
        state = record.state.rawValue
        product = record.product?.text
        version = record.version?.text
        rollout = record.rollout?.text
        gateway = record.holder?.gateway.text
        phase = record.phase?.rawValue
        reason = record.reason?.text
        since = record.since?.description
        at = record.at?.description
        attempt = record.attempt == 0 ? nil : record.attempt
        groups = record.groups.map(\.text)
    }
}

/// The command `fleet devices`, which lists the devices.
struct FleetDevices: Command {
    static let name = "fleet devices"
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List the devices of the fleet, with their states.",
        discussion: """
            Example: otaflash fleet devices --state given-up

            The list has the devices that a rollout has started to update, and the devices that an operator has held or put into a \
            group ('otaflash device --help'). The list is not signed: everybody who can write to the store can change it. For each \
            device, it shows the current or last rollout, and one of these states:

              idle      no update has started; the device is in the list because it
                        has a group, for example
              running   a gateway updates the device
              waiting   the latest attempt ended without a result, for example because
                        the link was lost; another attempt follows
              done      the device runs the image of the rollout, confirmed
              given-up  the rollout does not try the device again: its update has
                        failed or was refused ('otaflash rollout create --help'); the
                        list shows the error code as the reason
              held      an operator excludes the device from all rollouts

            With the keys of the operators, the list also shows why the running rollouts do not update a device (no update \
            because). A gateway writes the name and the time of the rollout into the record of a device. They count only if an \
            operator has signed this rollout. To discard a record, use 'otaflash device reset'.
            """)

    @Option(
        help: ArgumentHelp(
            "Show only the devices in this state.", valueName: "state"))
    var state: DeviceRecord.State?

    @Option(
        help: ArgumentHelp(
            "Show only the devices whose last update was by the gateway with this name. Default: all gateways.",
            valueName: "name"))
    var gateway: String?

    @OptionGroup var operators: OptionalOperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetDevicesAnswer {
        let gateway = try gateway.map { try GatewayName(reading: $0) }
        let operators = try operators.keys(console)
        return try await store.withStore(for: console) { store in
            let devices = try await StoredDevices(store)
            devices.warn(console)
            let judge: DeviceJudge? = if let operators { try await DeviceJudge(operators, in: store) } else { nil }
            return FleetDevicesAnswer(
                devices: devices.records.filter {
                    (state == nil || $0.state == state) && (gateway == nil || $0.holder?.gateway == gateway)
                }.map { FleetDevice($0, judge) })
        }
    }
}

/// The result of `fleet devices`.
struct FleetDevicesAnswer: TableAnswer {
    let devices: [FleetDevice]

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !devices.isEmpty else { return ["no devices"] }
        let hasObstacle = devices.contains { $0.noUpdateBecause != nil }
        return TextTable(
            [
                .identifier("device"), "state", "product", "version", .identifier("rollout"), .identifier("gateway"),
                "reason",
            ]
                + (hasObstacle ? ["no update because"] : []),
            devices.map { device in
                let cells = [
                    device.id, device.state, device.product, device.version, device.rollout, device.gateway,
                    device.reason,
                ]
                return (cells + (hasObstacle ? [device.noUpdateBecause] : [])).map { $0 ?? "-" }
            }
        ).lines(fitting: width)
    }
}

/// The arguments of a command that changes the record of a device.
struct DeviceChangeOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "The ID of the device (example: ble-AABBCCDDEEFF).",
            discussion:
                "otaflash makes the ID from the address: ble:AA:BB:CC:DD:EE:FF is ble-AABBCCDDEEFF. In other addresses, - "
                + "replaces each character that is not a letter, a digit or _, and the ID always has the UDP port: "
                + "udp-192-168-1-20-1337, serial--dev-ttyACM0, sim-NAME. 'otaflash fleet devices' prints the IDs of its devices."
        ))
    var id: String

    @OptionGroup var store: StoreOptions

    /// Writes the record after the change. A record that is not valid is replaced. A device without a record gets one: an operator can hold
    /// a device before a gateway has found it.
    func perform(_ change: DeviceChange, _ console: Console) async throws -> FleetDeviceAnswer {
        let device = try DeviceID(reading: id)
        let key = try RecordKey(.devices, device.text)
        return try await store.withStore { store in
            let stored = try await store.read(key)
            if stored == nil { try await warnOfUnknown(device, change, in: store, console) }
            let next: DeviceRecord
            do throws(FleetError) {
                let record = if let stored { try DeviceRecord(stored) } else { DeviceRecord(device: device) }
                next = try record.changed(change, at: WallClock.now())
            } catch {
                guard error.code == .malformed || error.code == .tooLarge else { throw error }
                next = try await replacement(of: device, change, because: error, console)
            }
            try await store.put(next.encoded(), at: key, expecting: stored?.revision ?? .absent)
            return FleetDeviceAnswer(device: FleetDevice(next))
        }
    }

    /// Warns that the store has no record of the device, because its ID can be mistyped.
    ///
    /// - Throws: `stale-record` for the release of such a device: it is not held.
    private func warnOfUnknown(
        _ device: DeviceID, _ change: DeviceChange, in store: some FleetStore, _ console: Console
    ) async throws {
        // A failure of this read must not prevent the change.
        let nearest = (try? await StoredDevices(store))?.nearest(to: device)
        let list = "list the known devices: otaflash fleet devices"
        let text = "the store has no record of the device \(device)"
        let undo: String
        switch change {
        case .unhold:
            throw FleetError(
                .staleRecord, "\(text), so the device is not held",
                hint: nearest.map { "did you mean: otaflash device release \($0)" } ?? list)
        case .group(let groups): undo = groups.isEmpty ? "" : "otaflash device group \(device) --none"
        default: undo = "otaflash device release \(device)"
        }
        let other =
            nearest.map { "did you mean \($0)? then repeat the command with this ID" } ?? "if the ID is wrong, \(list)"
        console.warn(
            "\(text): no gateway has updated it yet; the command creates the record",
            hint: undo.isEmpty ? other : "\(other); to undo this one: \(undo)")
    }

    /// Waits, and returns the new record for a device whose record is not valid.
    ///
    /// A gateway may still update the device, and no other gateway may start at the same time. The gateway cannot renew its lease, so it
    /// stops its push before this time is over. The caller writes the record only if the old one is unchanged until then.
    private func replacement(
        of device: DeviceID, _ change: DeviceChange, because error: FleetError, _ console: Console
    ) async throws -> DeviceRecord {
        let time = LeaseWatch.takeoverAge
        console.warn(
            "the record of the device \(device) is not valid: \(error.context). It is replaced in \(time.components.seconds) s, "
                + "when no gateway updates the device any more. Its groups and its rollout are lost",
            hint: "set the groups again: otaflash device group \(device) NAME...")
        try await Task.sleep(for: time)
        let record = DeviceRecord(device: device)
        return change == .unhold ? record : try record.changed(change, at: WallClock.now())
    }
}

extension DeviceID {
    /// Parses the argument of a command.
    init(reading text: String) throws(Failure) {
        guard let device = DeviceID(text) else {
            throw .usage("'\(text)' is not the ID of a device", hint: "list the devices: otaflash fleet devices")
        }
        self = device
    }
}

/// The result of a command for one device of the fleet.
struct FleetDeviceAnswer: CommandAnswer {
    let device: FleetDevice
    var describesDevice: Bool { true }

    var lines: [TerminalLine] {
        let groups = device.groups.isEmpty ? "none" : device.groups.joined(separator: ", ")
        return TextTable.pairs([("device", device.id), ("state", device.state), ("groups", groups)])
    }
}

/// The command `device hold`.
struct DeviceHold: Command {
    static let name = "device hold"
    static let configuration = CommandConfiguration(
        commandName: "hold", abstract: "Exclude a device from all rollouts.",
        discussion: """
            Example: otaflash device hold ble-AABBCCDDEEFF

            No gateway updates the device until 'otaflash device release'. A device that is being updated cannot be excluded (exit \
            75): wait for the end of its update.
            """)
    @OptionGroup var device: DeviceChangeOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetDeviceAnswer { try await device.perform(.hold, console) }
}

/// The command `device release`.
struct DeviceRelease: Command {
    static let name = "device release"
    static let configuration = CommandConfiguration(
        commandName: "release", abstract: "End the exclusion of a device.",
        discussion: """
            Example: otaflash device release ble-AABBCCDDEEFF

            Rollouts can then update the device again. If the device is not excluded, the command fails (exit 75).

            If the record of the device is not valid, for example because another program has overwritten it, hold, release and group \
            replace it. They first wait 45 s, until no gateway updates the device any more.
            """)
    @OptionGroup var device: DeviceChangeOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetDeviceAnswer { try await device.perform(.unhold, console) }
}

/// The command `device group`.
struct DeviceGrouping: Command {
    static let name = "device group"
    static let configuration = CommandConfiguration(
        commandName: "group", abstract: "Set the groups of a device. Rollouts and stages can select a group.",
        discussion: """
            Example: otaflash device group ble-AABBCCDDEEFF berlin beta

            A group is a name that you choose, such as a place. The given groups replace all groups of the device. \
            'otaflash rollout create' selects groups with group=NAME in --select and --stages.
            """)
    @OptionGroup var device: DeviceChangeOptions

    @Argument(help: "The names of the groups: letters, digits, _ and -. Required, unless --none is given.")
    var names: [String] = []

    @Flag(help: "Remove the device from all groups; not together with <names>.")
    var none = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        guard names.isEmpty == none else {
            throw ValidationError(none ? "Give groups or --none, not both." : "Missing expected argument '<names> ...'")
        }
    }

    func answer(_ console: Console) async throws -> FleetDeviceAnswer {
        let groups = try Set(names).sorted().map { name in
            guard let group = GroupName(name) else {
                throw Failure.usage("'\(name)' is not a name for a group", hint: "use 1 to 64 letters, digits, _ and -")
            }
            return group
        }
        return try await device.perform(.group(groups), console)
    }
}
