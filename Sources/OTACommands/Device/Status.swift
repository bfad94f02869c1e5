import ArgumentParser
import OTAClient
import OTAFirmware
import OTAUpdate

/// Shows the status of a device.
struct Status: DeviceCommand {
    static let name = "status"
    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Show the running image, the trial state and the progress of an interrupted upload.",
        discussion: "Example: otaflash status --device ble:AA:BB:CC:DD:EE:FF")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> StatusAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.status, on: target)
        return StatusAnswer(
            device: DeviceSummary(outcome), updateProtocol: outcome.report.updateProtocol,
            transfer: outcome.report.device.held.map { StatusAnswer.Transfer($0) },
            resume: Invocation(command: "push", file: "BUNDLE", target).again.line(adding: PushFlag.resume.argument))
    }
}

/// The result of `status`.
struct StatusAnswer: CommandAnswer {
    struct Transfer: Encodable, Sendable {
        /// The received bytes.
        let offset: Int
        /// The first 8 bytes of the manifest's SHA-256, as hex digits; a device reports only these.
        let manifestSha256Prefix: String

        init(_ held: DeviceDescription.HeldImage) {
            offset = held.offset
            manifestSha256Prefix = Hex.encode(held.manifestDigestPrefix)
        }
    }
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let transfer: Transfer?
    /// The command that resumes the upload.
    let resume: String
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case device, transfer
        case updateProtocol = "protocol"
    }

    var lines: [TerminalLine] {
        var rows = device.rows
        if let transfer {
            rows.append(
                (
                    "Partly received",
                    "\(transfer.offset) bytes of the image with manifest SHA-256 \(transfer.manifestSha256Prefix)…"
                ))
            rows.append(("", "resume with: \(resume)"))
        }
        return TextTable.pairs(rows)
    }
}
