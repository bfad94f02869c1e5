import ArgumentParser
import OTACommands
import OTAFirmware
import OTAFleet
import OTASigning
import OTAStore

/// The command `device reset`, which replaces the records of devices.
struct DeviceResetting: Command {
    static let name = "device reset"
    static let configuration = CommandConfiguration(
        commandName: "reset", abstract: "Replace the record of a device, also one that is not valid.",
        discussion: """
            Gateways write the records of devices without a signature. A gateway whose credentials were stolen can write that a device \
            is done, held, or in another rollout. First remove such a gateway from the server. Then reset its devices: the new records \
            have no rollout, no hold and no reason, so the running rollouts update the devices again. The groups of a record stay if it \
            is valid: check them. The record contains the time of the reset and the operator's signature.

            If a gateway may be updating one of the devices, reset first waits 45 s. If a record has changed in this time, a gateway \
            that runs has written it: reset does not replace it, and fails (exit 75).

            Examples: otaflash device reset ble-AABBCCDDEEFF --key ops.pem
                      otaflash device reset --gateway desk --key ops.pem
            """)

    @Argument(help: ArgumentHelp("The IDs of the devices. Required, unless --gateway is given.", valueName: "id"))
    var ids: [String] = []

    @Option(
        help: ArgumentHelp(
            "All devices whose last update was by this gateway, in place of <id>.",
            discussion: "'otaflash fleet devices --gateway' lists them.", valueName: "name"))
    var gateway: String?

    @OptionGroup var signing: SigningOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        guard ids.isEmpty != (gateway == nil) else {
            throw ValidationError(
                ids.isEmpty
                    ? "Missing expected argument '<id> ...', or give --gateway." : "Give IDs or --gateway, not both.")
        }
    }

    func answer(_ console: Console) async throws -> DeviceResetAnswer {
        let devices = try ids.map { try DeviceID(reading: $0) }
        let gateway = try gateway.map { try GatewayName(reading: $0) }
        let (signer, operators) = try signing.keys(console)
        guard let now = WallClock.now() else {
            throw FleetError(.clockNotSet, "the clock of this machine is not set", hint: "timedatectl set-ntp true")
        }
        // A key that is not an operator's key fails here, before the wait.
        if let first = devices.first { _ = try operators.sign(DeviceReset(device: first, at: now), with: signer) }
        return try await store.withStore(for: console) { store in
            var stored: [(device: DeviceID, record: StoredRecord?)] = []
            if let gateway {
                for record in try await store.records(in: .devices) {
                    guard let valid = try? DeviceRecord(record), valid.holder?.gateway == gateway else { continue }
                    stored.append((valid.device, record))
                }
                stored.sort { $0.device < $1.device }
            } else {
                for device in devices {
                    stored.append((device, try await store.read(RecordKey(.devices, device.text))))
                }
            }
            try await wait(for: stored.compactMap(\.record), console)
            var answer = DeviceResetAnswer(devices: [], changed: [])
            for (device, old) in stored {
                let reset = DeviceReset(device: device, at: now)
                let signed = try operators.sign(reset, with: signer)
                var next = DeviceRecord(of: reset, signed: signed, replacing: old.flatMap { try? DeviceRecord($0) })
                if (try? next.encoded()) == nil {
                    console.warn("\(device): the new record would be too large, so the device has no groups any more")
                    next = DeviceRecord(of: reset, signed: signed, replacing: nil)
                }
                do {
                    try await store.put(
                        next.encoded(), at: RecordKey(.devices, device.text), expecting: old?.revision ?? .absent)
                    answer.devices.append(FleetDevice(next, reset: now, by: signer.publicKey.id))
                } catch let error as FleetError where error.code == .staleRecord {
                    answer.changed.append(device.text)
                }
            }
            return answer
        }
    }

    /// Waits until no gateway updates one of the devices any more. Each gateway that does changes its record in this time.
    private func wait(for stored: [StoredRecord], _ console: Console) async throws {
        let count = stored.count { (try? DeviceRecord($0))?.state ?? .running == .running }
        guard count > 0 else { return }
        let time = LeaseWatch.takeoverAge
        console.note(
            "\(Figures.count(count, "device")) may be under update: the records are replaced in "
                + "\(time.components.seconds) s")
        try await Task.sleep(for: time)
    }
}

extension FleetDevice {
    /// The device of a record that this command has reset.
    fileprivate init(_ record: DeviceRecord, reset: Timestamp, by key: KeyID) {
        self.init(record, nil, Reset(at: reset.description, signer: "\(key)"))
    }
}

extension GatewayName {
    /// Parses the argument of a command.
    init(reading text: String) throws(Failure) {
        guard let name = GatewayName(text) else {
            throw .usage("'\(text)' is not a name for a gateway", hint: "use 1 to 64 letters, digits, _ and -")
        }
        self = name
    }
}

/// The result of `device reset`.
struct DeviceResetAnswer: TableAnswer {
    /// The devices with their new records.
    var devices: [FleetDevice]
    /// The devices whose record another process has changed, so that it was not replaced.
    var changed: [String]
    var describesDevice: Bool { true }

    private enum CodingKeys: CodingKey { case devices, changed }

    var failure: Failure? {
        guard let first = changed.first else { return nil }
        return FleetError(
            .staleRecord,
            "the records of \(Figures.count(changed.count, "device")) were not reset, because a running gateway has "
                + "changed them: \(first)\(changed.count > 1 ? " and others" : "")",
            hint:
                "find the gateway: otaflash fleet devices --state running; stop it or remove its user from the server, and run "
                + "the command again"
        ).failure
    }

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !devices.isEmpty else { return ["no device was reset"] }
        return TextTable(
            [.identifier("device"), "state", "groups"],
            devices.map { [$0.id, $0.state, $0.groups.isEmpty ? "none" : $0.groups.joined(separator: ", ")] }
        ).lines(fitting: width)
    }
}
