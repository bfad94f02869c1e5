import ArgumentParser

struct Discard: DeviceVerb {
    static let name = "discard"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Have a device forget a half-received image, or give up the one on trial.")

    @OptionGroup var target: DeviceOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, target) }

    func answer(_ console: Console) async throws -> DeviceAnswer {
        let outcome = try await Wiring(console: console, invocation: invocation)
            .perform(.discard, on: target)
        return DeviceAnswer(outcome) { device in
            let what = device.previousVersion.map { "gave \($0) up" } ?? "holds no half-received image now"
            return "\(device.title) \(what); it runs \(device.runningVersion), confirmed."
        }
    }
}
