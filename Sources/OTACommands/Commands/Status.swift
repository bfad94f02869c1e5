import ArgumentParser
import OTAFirmware
import OTAUpdate

struct Status: DeviceVerb {
    static let name = "status"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Show what runs on a device, what is staged, and how far a broken transfer got.")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> StatusAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.status, on: target)
        return StatusAnswer(
            device: DeviceSummary(outcome), updateProtocol: outcome.updateProtocol,
            transfer: outcome.report.device.held.map { StatusAnswer.Transfer($0) },
            resume: Invocation(command: "push", file: "BUNDLE", target).again.line(adding: "--resume"))
    }
}

struct StatusAnswer: Answer {
    struct Transfer: Encodable, Sendable {
        /// Bytes held.
        let offset: Int
        /// The first 8 bytes: a device tells no more of it.
        let manifestSha256Prefix: String

        init(_ held: DeviceDescription.HeldImage) {
            offset = held.offset
            manifestSha256Prefix = Hex.encode(held.manifestDigestPrefix)
        }
    }
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let transfer: Transfer?
    /// What takes the half-received image up.
    let resume: String

    private enum CodingKeys: String, CodingKey {
        case device, transfer
        case updateProtocol = "protocol"
    }

    var lines: [TerminalLine] {
        var rows = device.rows
        if let transfer {
            rows.append(
                (
                    "Half received",
                    "\(transfer.offset) bytes of the image whose manifest's SHA-256 begins \(transfer.manifestSha256Prefix)"
                ))
            rows.append(("", "go on with: \(resume)"))
        }
        return TextTable.pairs(rows)
    }
}
