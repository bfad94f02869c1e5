import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import OTAUpdate

/// The command `device-check`, which checks firmware against the specification of the GATT OTA profile.
struct CheckDevice: DeviceCommand {
    static let name = "device-check"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Check a device against the GATT OTA profile.",
        discussion: """
            Example: otaflash device-check --device ble:AA:BB:CC:DD:EE:FF
                     otaflash device-check --device sim:kitchen \\
                       --bundle app.bin.otaf --trust release.pub.pem

            For engineers who write the device side of the profile. Each line is a rule of the specification: pass, FAIL or \
            skipped. device-check sends requests that a correct device refuses. It never installs an image, and the device \
            keeps the image that it runs.

            With --bundle, it also sends the image more than twice, resumes it after a lost link, and discards it. This \
            overwrites the slot that does not run, and a partial upload. Exit 0: no rule failed. Exit 76: a rule failed.
            """)

    @OptionGroup var target: DeviceOptions

    @Option(
        help: ArgumentHelp(
            "Also check the transfer of an image, with a bundle that the device accepts.",
            discussion: "Default: only the rules that need no signed envelope.", valueName: "path"),
        completion: .file())
    var bundle: String?

    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceCheckAnswer {
        let address = try target.address()
        let profile = Protocols.all[0].updateProtocol
        guard target.session.updateProtocol.forced ?? profile == profile, address.protocols.contains(profile) else {
            throw Failure.usage(
                "device-check is for the \(profile.title), which needs Bluetooth", hint: "give a ble: or sim: address")
        }
        let verified = try bundle.map { try verifiedBundle($0, isVirtual: address.isSimulated, console) }
        let outcome = try await console.perform(on: target, Updater.Options()) {
            try await $0.check(verified, interrupts: $1, report: $2)
        }
        return DeviceCheckAnswer(outcome)
    }

    private func verifiedBundle(_ path: String, isVirtual: Bool, _ console: Console) throws -> VerifiedBundle {
        let file = try UpdateFile(parsing: FileReader.contents(of: path))
        let verifier = Verifier(
            trust: try trust.store(console), policy: TrustPolicy(allowsDemoKey: isVirtual, minimumSigners: 1))
        do throws(VerificationError) {
            if case .bundle(let bundle) = try file.verified(by: verifier),
                ImageFormat.bootable.contains(bundle.manifest.imageFormat)
            {
                return bundle
            }
        } catch {
            throw Failure(error, in: Invocation(command: Verify.name, file: path))
        }
        throw Failure.usage(
            "--bundle is for a bundle with an image", hint: "create one: otaflash sign IMAGE --key KEY.pem")
    }
}

/// The result of the command `device-check`.
struct DeviceCheckAnswer: CommandAnswer {
    struct Rule: Encodable, Sendable {
        let rule, section, statement, verdict: String
        let detail, fix: String?

        init(_ result: CheckResult) {
            (rule, section, statement) = (result.rule, result.section, result.statement)
            (verdict, detail, fix) = (result.verdict.rawValue, result.detail, result.fix)
        }

        /// The rule on one line, and below it the deviation and the fix of a failed rule.
        fileprivate var lines: [String] {
            let words = ["passed": "pass   ", "failed": "FAIL   "]
            let word = words[verdict] ?? verdict
            let rest = fix == nil ? detail.map { " (\($0))" } ?? "" : ""
            let line = "\(word)  \(rule): \(statement)\(rest)  \(DeviceCheckAnswer.page)#\(section)"
            guard let fix else { return [line] }
            return [line] + (detail.map { ["         found: \($0)"] } ?? []) + ["         to fix: \(fix)"]
        }
    }
    /// The path of the specification in the repository.
    fileprivate static let page = "docs/ota-profile.md"

    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let rules: [Rule]
    let passed, failed, skipped: Int
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case device, rules, passed, failed, skipped
        case updateProtocol = "protocol"
    }

    init(_ outcome: UpdateResult) {
        let checks = outcome.report.checks
        device = DeviceSummary(outcome)
        updateProtocol = outcome.report.updateProtocol
        rules = checks.map { Rule($0) }
        passed = checks.count { $0.verdict == .passed }
        failed = checks.count { $0.verdict == .failed }
        skipped = checks.count { $0.verdict == .skipped }
    }

    var lines: [TerminalLine] {
        let total = "\(device.title): \(passed) rules passed, \(failed) failed, \(skipped) skipped."
        return (rules.flatMap(\.lines) + ["", total]).map { TerminalLine($0) }
    }

    var failure: Failure? {
        let names = rules.filter { $0.verdict == CheckResult.Verdict.failed.rawValue }.map(\.rule)
        guard !names.isEmpty else { return nil }
        return Failure(
            UpdateError.Code.protocolViolation.rawValue, .protocolBroken,
            "the device violates \(names.count) rule\(names.count == 1 ? "" : "s") of the profile: \(names.joined(separator: ", "))",
            hint: "the result has a fix for each rule; to see the messages: the same command with --log FILE")
    }
}
