import FoundationEssentials
import OTAClient
import OTASigning
import OTAUpdate

/// Updates a device and shows a progress bar: `push-with-progress BUNDLE PUBLIC-KEY ADDRESS`.
@main
struct Push {
    static func main() async throws {
        guard CommandLine.arguments.count == 4 else {
            return print("usage: push-with-progress BUNDLE PUBLIC-KEY ADDRESS (example: 'sim:?drop-at=0.4')")
        }
        let bytes = try contents(of: CommandLine.arguments[1])
        let trust = try TrustStore([PublicKey(pem: SecretBytes(copying: contents(of: CommandLine.arguments[2])))])
        let address = try DeviceAddress(CommandLine.arguments[3])

        var options = Updater.Options()
        options.keysOfNewDevice = trust
        options.timeLimit = .seconds(600)

        let update = try UpdateFile(parsing: bytes).verified(by: Verifier(trust: trust))
        let result = try await Updater(address, options).push(update) { steps in
            for await step in steps { show(step) }
        }
        print("\(result.address) runs \(result.report.device.runningVersion): \(result.report.outcome)")
    }

    /// Draws the bar in place. Other steps are lines of their own.
    private static func show(_ step: Updater.Step) {
        switch step.progress {
        case .transferred(let offset, let total, _):
            let width = 40
            let filled = total > 0 ? offset * width / total : width
            let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled)
            print("\r[\(bar)] \(offset) of \(total) bytes", terminator: offset == total ? "\n" : "")
        case .phase(let phase): print("\(phase.rawValue), after \(step.time)")
        default: print("\(step.progress)")
        }
    }

    private static func contents(of path: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: URL(filePath: path)))
    }
}
