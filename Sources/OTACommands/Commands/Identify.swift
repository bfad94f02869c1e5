import ArgumentParser

struct Identify: DeviceVerb {
    static let name = "identify"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Have a device blink, so that it can be told from others.")

    @OptionGroup var target: DeviceOptions

    @Option(help: "For how long; 0 stops it.")
    var seconds: UInt8 = 10

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.identify(seconds: seconds), on: target)
        let what = seconds == 0 ? "blinks no more" : "blinks for \(seconds) s"
        return DeviceAnswer(outcome) { "\($0.title) \(what)." }
    }
}
