import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// Checks the requirements of a push over Bluetooth.
struct Doctor: Verb {
    static let name = "doctor"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Check that this machine can push over Bluetooth, and show how to fix it.",
        discussion: """
            Exit 0: a push can work. 'missing' marks a problem that prevents a push (exit 69). 'slow' marks a setting that \
            reduces the speed.
            """)

    @OptionGroup var radio: AdapterOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, trust: trust.trust) }

    func answer(_ console: Console) async throws -> DoctorAnswer {
        let service = await BluetoothService.examine(console.logger)
        var checks = service.checks
        if let configuration = service.configuration {
            checks.append(await AdapterCheck.examine(radio.adapter, console.logger))
            checks += SpeedSettings(parsing: SystemFile.text(configuration) ?? "").checks(of: configuration)
        }
        checks.append(RadioSwitch.check(RadioSwitch.all()))
        let keys: [KeyID]
        do throws(KeyError) {
            let store = try trust.store(console)
            keys = store.keys.map(\.id)
            let places = trust.paths.map(\.string).joined(separator: ", ")
            let names = keys.map { id in "\(id)" + (store.scope(of: id).map { " (\($0) only)" } ?? "") }
            checks.append(.ok("trust", "\(names.joined(separator: ", ")); from \(places)"))
        } catch {
            keys = []
            let failure = Failure(error, in: invocation)
            checks.append(
                Check(
                    name: "trust", state: .missing, message: failure.message,
                    advice: failure.hints))
        }
        return DoctorAnswer(
            checks: checks,
            trust: DoctorAnswer.Trust(paths: trust.paths.map(\.string), keys: keys.map(\.description)))
    }
}

/// The result of `doctor`.
struct DoctorAnswer: Answer {
    struct Trust: Encodable, Sendable {
        let paths: [String]
        /// The ids of the trusted keys.
        let keys: [String]
    }
    let checks: [Check]
    let trust: Trust
    let versions = PartVersions()

    private enum CodingKeys: CodingKey {
        case checks, trust, versions
    }

    var lines: [TerminalLine] {
        let width = checks.map(\.name.count).max() ?? 0
        let lines = checks.flatMap { check in
            let name = check.name + String(repeating: " ", count: width - check.name.count)
            let state = check.state.rawValue + String(repeating: " ", count: 7 - check.state.rawValue.count)
            let indent = String(repeating: " ", count: 7 + 2 + width + 2)
            return ["\(state)  \(name)  \(check.message)"] + (check.advice ?? []).map { indent + $0 }
        }
        return (lines + [versions.text]).map { TerminalLine($0) }
    }

    var failure: Failure? {
        let missing = checks.filter { $0.state == .missing }
        guard let first = missing.first else { return nil }
        return Failure(
            "not-ready", .unavailable,
            "a push over Bluetooth cannot work yet, missing: \(missing.map(\.name).joined(separator: ", "))",
            hints: first.advice ?? ["follow the steps above, then: otaflash doctor"])
    }
}
