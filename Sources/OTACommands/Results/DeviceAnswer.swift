/// What confirm, discard and identify answer with.
struct DeviceAnswer: Answer {
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    let lines: [TerminalLine]

    private enum CodingKeys: String, CodingKey {
        case device
        case updateProtocol = "protocol"
    }

    /// - Parameter text: for people, of what the device now is.
    init(_ outcome: DeviceOutcome, text: (DeviceSummary) -> String) {
        device = DeviceSummary(outcome)
        updateProtocol = outcome.updateProtocol
        lines = [TerminalLine(text(device))]
    }
}
