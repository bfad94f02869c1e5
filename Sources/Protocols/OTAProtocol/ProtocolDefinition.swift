package import OTASigning
package import OTAUpdate

/// What otaflash knows of an update protocol. Each protocol has a folder with its messages, its conversation and this definition, and one
/// line in the table `Protocols` of OTAClient. The other code asks the table.
package protocol ProtocolDefinition: Sendable {
    var updateProtocol: UpdateProtocol { get }
    /// The technology, for the help of `--protocol`.
    var summary: String { get }
    /// The UUIDs of the GATT services that show the protocol. A device advertises one of them.
    var services: Set<UInt128> { get }
    /// The channel over a transport that has only one (UDP, serial lines); nil: the protocol needs GATT.
    var onlyChannel: Channel? { get }

    /// The names of the channels in logs.
    var channelNames: [Channel: String] { get }
    /// Returns how many bytes at the start of each value are not bytes of the update, such as a sequence number.
    ///
    /// - Parameter values: the values of one packet to the device. The channel is one of `channelNames`.
    /// - Returns: nil if the packet has no bytes of an update.
    func headers(of values: [[UInt8]], on channel: Channel) -> [Int]?

    /// True if the protocol can push the update. A device can offer several protocols: a push uses the first one that can push its update.
    func accepts(_ update: VerifiedUpdate) -> Bool
    /// Creates the conversation of a task.
    ///
    /// - Throws: `wrongImageFormat` or `unsupportedDevice` if the protocol does not support the task.
    func conversation(_ task: UpdateTask<VerifiedUpdate>) throws(UpdateError) -> any Conversation
    /// Creates the conversation of a scan, which reads the product and the version of a device. It changes nothing on the device, and ends
    /// soon, because a scan asks all devices in range.
    func identification() throws(UpdateError) -> any Conversation
    /// True if a scan may pair with a device, without a question to the user, to read its product and version.
    var pairsToIdentify: Bool { get }
}

extension ProtocolDefinition {
    package var onlyChannel: Channel? { nil }
    package var pairsToIdentify: Bool { false }

    package func identification() throws(UpdateError) -> any Conversation {
        try conversation(.status)
    }

    /// True if the device of the link has one of the services.
    package func isOffered(on link: LinkProperties) -> Bool {
        link.channels.contains { services.contains($0.service) }
    }
}
