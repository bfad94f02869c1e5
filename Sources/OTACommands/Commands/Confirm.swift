import ArgumentParser
import OTAUpdate

/// Makes the image on trial permanent.
struct Confirm: DeviceVerb {
    static let name = "confirm"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Confirm the image that runs on trial.")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.confirm, on: target)
        return DeviceAnswer(outcome) { "\($0.title) runs \($0.runningVersion), confirmed." }
    }
}
