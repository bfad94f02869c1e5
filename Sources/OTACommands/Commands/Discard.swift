import ArgumentParser
import OTAUpdate

/// Discards a partly received image, or rolls back the image on trial.
struct Discard: DeviceVerb {
    static let name = "discard"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Discard a partly received image, or roll back the image on trial.")

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
