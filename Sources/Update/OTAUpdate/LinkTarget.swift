/// The device to which a session opens its next link. A conversation sets it in `ConversationState.target`.
public enum LinkTarget: Sendable, Hashable {
    /// The device of the session, at its known address.
    case device
    /// The program of the device that runs, such as the application or the firmware loader. It has the address of the device, or the name
    /// `LinkProperties.programName`, and its own attribute table.
    case program
}
