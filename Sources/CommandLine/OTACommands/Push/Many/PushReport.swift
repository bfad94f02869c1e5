import FoundationEssentials

/// The result of an earlier push, from `push --report FILE.json` or `push --format json`.
struct PushReport {
    /// The addresses of the devices that the push did not update, in the order of the report.
    let failed: [String]
    /// The SHA-256 of the manifest of the bundle that was pushed, as hex digits; nil for images.
    let release: String?

    /// Reads a report.
    ///
    /// - Throws: `bad-report` if the file is not the result of a push, or if the push failed before it began with a device; the errors of
    ///   `FileReader`.
    init(_ path: String) throws(Failure) {
        try StandardFile.refuse(
            path, "the report of an earlier push cannot be standard input",
            hint: "save it first, such as cat > report.json, and give this file")
        let bytes = try FileReader.contents(of: path)
        guard let result = try? JSONDecoder().decode(Result.self, from: Data(bytes)), result.schema == 1,
            result.command == Push.name
        else {
            throw Self.bad(
                "\(path) is not the result of a push",
                "write one with the push to the devices: --report report.json, or --format json")
        }
        let own = result.device.map { Entry(ok: result.ok, device: $0, outcome: result.outcome) }
        guard let entries = result.devices ?? own.map({ [$0] }) else {
            let code = result.error.map { ": \($0.code)" } ?? ""
            throw Self.bad(
                "\(path) has no devices, because its push failed before it began with a device\(code)",
                "run that push again: it has changed no device")
        }
        guard !entries.contains(where: { $0.outcome == "would-update" }) else {
            throw Self.bad(
                "\(path) is the result of a dry run, which updates no device",
                "push to all devices with --report, and use that report")
        }
        failed = entries.filter { !$0.ok }.map(\.device.given)
        release = result.bundle?.manifestSha256
    }

    static func bad(_ message: String, _ hint: String) -> Failure {
        Failure("bad-report", .malformed, message, hint: hint)
    }

    // The members of a result that this command needs. All of them are required in each result of a push (docs/schema).

    private struct Result: Decodable {
        let schema: Int
        let command: String
        let ok: Bool
        /// The device of a push to one device.
        let device: Device?
        let outcome: String?
        let bundle: Bundle?
        /// The devices of a push to several devices. The devices of `push --all --list` are no results of a push.
        let devices: [Entry]?
        let error: Reason?
    }

    private struct Entry: Decodable {
        let ok: Bool
        let device: Device
        let outcome: String?
    }

    private struct Bundle: Decodable {
        let manifestSha256: String

        private enum CodingKeys: String, CodingKey { case manifestSha256 = "manifest_sha256" }
    }

    private struct Device: Decodable {
        let given: String
    }

    private struct Reason: Decodable {
        let code: String
    }
}
