import ArgumentParser
import OTAClient
import OTAUpdate

/// The command `confirm`, which makes the image on trial permanent.
struct Confirm: DeviceCommand {
    static let name = "confirm"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Confirm the image that runs on trial.",
        discussion: "Example: otaflash confirm --device ble:AA:BB:CC:DD:EE:FF")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.confirm, on: target)
        return DeviceAnswer(outcome) { "\($0.title) runs \($0.runningVersion), confirmed." }
    }
}

/// The command `discard`, which discards a partial upload or rolls back the image on trial.
struct Discard: DeviceCommand {
    static let name = "discard"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Discard a partly received image, or roll back the image on trial.",
        discussion: "Example: otaflash discard --device ble:AA:BB:CC:DD:EE:FF")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.discard, on: target)
        return DeviceAnswer(outcome) { device in
            let what = device.previousVersion.map { "rolled back from \($0)" } ?? "holds no partly received image"
            return "\(device.title) \(what) and runs \(device.runningVersion), confirmed."
        }
    }
}

/// The command `identify`, which makes a device blink.
struct Identify: DeviceCommand {
    static let name = "identify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a device blink, to find it among others (GATT OTA profile only).",
        discussion: "Example: otaflash identify --device ble:AA:BB:CC:DD:EE:FF --seconds 30")

    @OptionGroup var target: DeviceOptions

    @Option(help: "The blink time in seconds, 0 to 255; 0 stops it.", transform: WholeNumber.in(0...255))
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

/// The result of the command `confirm`, `discard` or `identify`.
struct DeviceAnswer: CommandAnswer {
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let lines: [TerminalLine]
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case device
        case updateProtocol = "protocol"
    }

    /// Creates the result of a command.
    ///
    /// - Parameter text: returns the sentence about the device for the user.
    init(_ outcome: UpdateResult, text: (DeviceSummary) -> String) {
        device = DeviceSummary(outcome)
        updateProtocol = outcome.report.updateProtocol
        lines = [TerminalLine(text(device))]
    }
}
