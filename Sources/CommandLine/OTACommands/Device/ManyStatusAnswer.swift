import OTAClient
import OTAUpdate

/// The result of the command `status` for several devices.
struct ManyStatusAnswer: TableAnswer {
    /// The result of one device.
    struct Entry: Encodable, Sendable {
        /// The address that the user gave, or with `--all` the address that the scan found.
        let given: String
        /// The Bluetooth adapter of the device; nil if the command does not use several adapters.
        let adapter: String?
        let warnings: [String]
        /// The status or the failure; nil if the device was not asked.
        let result: Result<StatusAnswer, Failure>?

        private enum CodingKeys: CodingKey {
            case device, adapter, ok, exit, warnings
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(answer != nil, forKey: .ok)
            try container.encodeIfPresent(adapter, forKey: .adapter)
            if !warnings.isEmpty { try container.encode(warnings, forKey: .warnings) }
            if result != nil { try container.encode((failure?.exit ?? .done).rawValue, forKey: .exit) }
            guard let answer else {
                try container.encode(GivenDevice(given: given), forKey: .device)
                try failure.map { JSONFailure($0) }?.encode(to: encoder)
                return
            }
            try answer.encode(to: encoder)
        }

        var answer: StatusAnswer? { try? result?.get() }
        var failure: Failure? { if case .failure(let failure)? = result { failure } else { nil } }
        /// The state of the device, or the code of its failure.
        var state: String { answer?.state ?? failure?.code ?? "not-started" }
        /// The name of a Bluetooth device. The address of a virtual device already contains its name.
        var name: String? { answer.flatMap { $0.device.address.hasPrefix("sim:") ? nil : $0.device.name } }
    }

    let devices: [Entry]
    private let invocation: Invocation
    private let interrupted: ExitStatus?
    var describesDevice: Bool { true }

    private enum CodingKeys: CodingKey { case devices }

    /// - Parameter interrupted: the exit status of the signal that stopped the command; nil: no signal.
    init(
        _ outcomes: [ManySessions.Outcome], _ targets: DeviceTargets, _ invocation: Invocation,
        interrupted: ExitStatus?
    ) {
        devices = outcomes.map { outcome in
            Entry(
                given: outcome.device.address.text, adapter: outcome.adapter, warnings: outcome.warnings,
                result: outcome.result?.map { StatusAnswer($0, targets.options(for: outcome.device)) })
        }
        self.invocation = invocation
        self.interrupted = interrupted
    }

    func text(fitting width: Int?) -> [TerminalLine] {
        guard !devices.isEmpty else { return ["No updatable device in range."] }
        return TextTable(
            devices: devices,
            [
                (.identifier("DEVICE"), \.given), ("NAME", \.name), ("ADAPTER", \.adapter),
                ("VERSION", { $0.answer?.device.runningVersion }), ("STATE", \.state),
                ("DIGEST", { $0.answer?.digestPrefix }),
                (.identifier("TRUSTED KEYS"), { $0.answer?.device.keys?.joined(separator: ", ") }),
            ], \.failure
        ).lines(fitting: width)
    }

    var failure: Failure? {
        let missing = devices.count { $0.answer == nil }
        guard missing > 0 else { return nil }
        let exit = interrupted ?? .several(devices.compactMap(\.failure))
        return Failure(
            "devices-not-read", exit, "not read: \(missing) of \(Figures.count(devices.count, "device"))",
            hint: (exit == .someFailed ? "correct the causes, then run: " : "run the command again: ")
                + invocation.line())
    }
}
