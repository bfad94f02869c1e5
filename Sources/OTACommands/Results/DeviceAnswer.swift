/// What confirm, discard and identify answer with.
struct DeviceAnswer: Answer {
    let device: DeviceSummary
    let text: String

    private enum CodingKeys: CodingKey {
        case device
    }
}
