/// What confirm, discard and identify answer with.
struct DeviceAnswer: Answer {
    let device: DeviceSummary
    let spoken: UpdateProtocol
    let lines: [TerminalLine]

    private enum CodingKeys: String, CodingKey {
        case device
        case spoken = "protocol"
    }

    /// - Parameter text: for people, of what the device now is.
    init(_ outcome: DeviceOutcome, text: (DeviceSummary) -> String) {
        device = DeviceSummary(outcome)
        spoken = outcome.spoken
        lines = [TerminalLine(text(device))]
    }
}
