import ArgumentParser
import OTAUpdate

/// Makes a device blink.
struct Identify: DeviceVerb {
    static let name = "identify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a device blink, to find it among others (GATT OTA profile only).")

    @OptionGroup var target: DeviceOptions

    @Option(help: "The blink time in seconds, 0 to 255; 0 stops it.")
    var seconds: UInt8 = 10

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.identify(seconds: seconds), on: target)
        let what = seconds == 0 ? "stopped blinking" : "blinks for \(seconds) s"
        return DeviceAnswer(outcome) { "\($0.title) \(what)." }
    }
}
