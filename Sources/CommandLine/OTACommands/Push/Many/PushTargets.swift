import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import OTAUpdate

/// The options of `push` that select one or several devices.
struct PushTargets: ParsableArguments {
    @OptionGroup var devices: DeviceTargets

    private static let title = "Options for several devices"

    @Option(
        help: ArgumentHelp(
            "The report of an earlier push (--report FILE.json): update the devices that it did not update.",
            discussion:
                "The file is also the output of --format json. Not together with --device, --device-file and --all.",
            valueName: "file"),
        completion: .file(extensions: ["json"]))
    var failedFrom: String?

    @OptionGroup(title: title) var selection: DeviceSelection
    @OptionGroup(title: title) var order: PushOrder

    func validate() throws {
        guard !selection.all || failedFrom == nil else {
            throw ValidationError("'--all' and '--failed-from' cannot be used together.")
        }
        try devices.check(finder: selection.all ? "--all" : failedFrom == nil ? nil : "--failed-from")
    }

    /// True for a push to several devices. This includes every push with `--all`, `--device-file` or `--failed-from`, even to only one
    /// device.
    var areMany: Bool { selection.all || failedFrom != nil || devices.areMany }

    /// The words of the command line that select the devices. Hints repeat them in the command line that they show.
    var words: [String] {
        devices.deviceWords + (failedFrom.map { ["--failed-from", $0] } ?? []) + selection.words + devices.sharedWords
            + order.words
    }

    /// Returns the options for another push to the devices that this push does not update.
    ///
    /// - Parameter report: the file with the result of this push.
    func retrying(_ report: String) -> PushTargets {
        var targets = self
        targets.devices.device = []
        targets.devices.deviceFile = nil
        targets.selection.all = false
        targets.failedFrom = report
        return targets
    }

    /// Checks that a report without a failed device is about the release of this push.
    ///
    /// - Throws: `bad-report`; the errors of `PushReport`.
    func checkReport(is update: VerifiedUpdate) throws(Failure) {
        guard let failedFrom, case .bundle(let bundle) = update, let release = try PushReport(failedFrom).release,
            release != SHA256.digest(of: bundle.manifest.bytes).description
        else { return }
        throw PushReport.bad(
            "all devices of \(failedFrom) were updated, and to another release than this file",
            "push this file to all devices")
    }

    /// Parses the addresses of all devices; empty with `--all`.
    ///
    /// - Throws: the errors of `DeviceTargets.addresses()` and of `PushReport`.
    func addresses() throws -> [DeviceAddress] {
        if selection.all { return [] }
        guard let failedFrom else { return try devices.addresses() }
        let failed = try PushReport(failedFrom).failed
        do { return try devices.addresses(DeviceList(failed, file: nil)) } catch {
            var failure = Failure(error, in: Invocation(command: Push.name))
            failure.message = "\(failedFrom): \(failure.message)"
            throw failure
        }
    }
}

/// The options for the order of the updates: how many run at the same time, how many run first as a test, and whether a failure stops the
/// others.
struct PushOrder: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "How many devices may receive data at the same time, 1 to 1000; default: auto.",
            discussion:
                "The number applies to each Bluetooth adapter, to all UDP devices together, and to all virtual devices together. "
                + "Example: 2 permits 2 devices over hci0, 2 over hci1 and 2 over UDP. A serial port has one device. auto: 4 over "
                + "each Bluetooth adapter, 32 over UDP, 4 virtual devices.",
            valueName: "number"),
        transform: Self.atOnce)
    var atOnce = AtOnce.auto

    @Option(
        help: ArgumentHelp(
            "Update and confirm this number of devices before the others. Default: 1 for 4 or more devices, or else 0.",
            discussion:
                "With --no-confirm, these devices must be on trial, and with --upload-only the image must be uploaded. If one of "
                + "them cannot be updated, for example because its link was lost, another device takes its place.",
            valueName: "number"),
        transform: WholeNumber.in(0...1000))
    var first: Int?

    @Flag(
        help: ArgumentHelp(
            "Continue with other devices after a rollback, or after a device did not return.",
            discussion: "Default: after such a failure, complete the running updates and start no others."))
    var keepGoing = false

    /// The value of `--at-once`.
    enum AtOnce: Sendable, CustomStringConvertible {
        case auto
        case number(Int)

        var number: Int? { if case .number(let number) = self { number } else { nil } }
        var description: String { number.map { "\($0)" } ?? "auto" }
    }

    private static func atOnce(_ text: String) throws -> AtOnce {
        if text == AtOnce.auto.description { return .auto }
        guard let number = Int(text), (1...1000).contains(number) else {
            throw ValidationError("expected auto, or a whole number from 1 to 1000.")
        }
        return .number(number)
    }

    /// These options as words of the command line. Hints repeat them in the command line that they show.
    fileprivate var words: [String] {
        var words: [String] = []
        if let number = atOnce.number { words += ["--at-once", "\(number)"] }
        if let first { words += ["--first", "\(first)"] }
        if keepGoing { words.append("--keep-going") }
        return words
    }
}
