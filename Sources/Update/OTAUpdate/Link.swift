/// The properties of an open link. They are constant until the link ends.
public struct LinkProperties: Sendable, Equatable {
    /// The channels that the device offers.
    public var channels: Set<Channel>
    /// The maximum length of a sent, written or notified value, in bytes: MTU − 3 on GATT.
    public var maximumValueLength: Int
    /// True if each value is a complete message, such as a datagram. On GATT a message can consist of several values.
    public var preservesMessageBoundaries: Bool
    /// The number of bytes that the transport's framing adds to each value in the device's receive buffer. A value must be shorter than
    /// this buffer by this number. It is 4 on a serial console, whose frames contain a length and a CRC, and 0 on other transports.
    public var framingOverhead: Int
    /// The time after which the device discards an incomplete message, if no further byte arrives. Until then, the device takes the next
    /// message for the rest of the incomplete one. So a message is repeated only after this time. It is zero if the transport marks the
    /// start of each message.
    public var discardTime: Duration
    /// The address of the device if it is a candidate: another device that may be the restarted device with a new address. Nil if the link
    /// is to the device of the session.
    public var candidate: String?
    /// The name under which the transport finds another program of the device (`LinkTarget.program`). It belongs to this device only. Nil
    /// if the transport reaches only the address of the device.
    public var programName: String?
    /// The operations that the device declares for its channels (the properties of GATT). Empty if the transport does not report them.
    public var operations: [Channel: Set<ChannelOperation>]
    /// True if the link is to a device with another address and the name `programName`. The conversation must check that this is a program
    /// of the device.
    public var hasOtherAddress: Bool

    public init(
        channels: Set<Channel>, maximumValueLength: Int, preservesMessageBoundaries: Bool = false,
        framingOverhead: Int = 0, discardTime: Duration = .zero, candidate: String? = nil,
        programName: String? = nil, hasOtherAddress: Bool = false, operations: [Channel: Set<ChannelOperation>] = [:]
    ) {
        self.channels = channels
        self.maximumValueLength = maximumValueLength
        self.preservesMessageBoundaries = preservesMessageBoundaries
        self.framingOverhead = framingOverhead
        self.discardTime = discardTime
        self.candidate = candidate
        self.programName = programName
        self.hasOtherAddress = hasOtherAddress
        self.operations = operations
    }
}

/// An operation that a GATT characteristic permits (Core Specification, Vol 3, Part G, 3.3.1.1).
public enum ChannelOperation: String, Sendable, CaseIterable {
    case read
    case write
    case writeWithoutResponse = "write-without-response"
    case notify
    case indicate
}

/// The source or destination of values: a GATT characteristic, identified by the UUIDs of the service and the characteristic.
///
/// A transport without characteristics (UDP, serial) has exactly one channel.
public struct Channel: Hashable, Sendable {
    public let service, characteristic: UInt128

    public init(service: UInt128, characteristic: UInt128) {
        self.service = service
        self.characteristic = characteristic
    }
}

/// A command for a link. Commands are performed in the order of submission.
public enum LinkCommand: Sendable, Equatable {
    case subscribe(Channel)
    case read(Channel)
    /// Writes one value with response. The event `written` also confirms that the values of all earlier `send` commands have arrived.
    case write([UInt8], Channel)
    /// Writes several values without response, in order. No event follows.
    case send([[UInt8]], Channel)
}

/// An event of a link.
public enum LinkEvent: Sendable, Equatable {
    /// The successful answer to a subscribe.
    case subscribed(Channel)
    /// The successful answer to a read.
    case value([UInt8], Channel)
    /// The successful answer to a write.
    case written(Channel)
    /// The answer to a failed subscribe, read or write.
    case refused(LinkError, Channel)
    case notified([UInt8], Channel)
}

/// The reason why a link could not be opened or was lost, or why a command failed. Two errors are equal if their codes are equal.
public struct LinkError: Error, Sendable, Equatable {
    public enum Code: String, Sendable {
        /// This machine cannot use the transport. For example, it has no adapter or no bluetoothd.
        case unavailable = "link-unavailable"
        /// No device with this address was found.
        case noSuchDevice = "no-such-device"
        /// Another otaflash uses the device. `detail` contains the process id of the other otaflash.
        case inUse = "device-in-use"
        /// The link did not open in time, or the device did not answer in time.
        case timedOut = "connect-timeout"
        /// The link was open and ended.
        case lost = "link-lost"
        /// The device answered a command with an error.
        case refused = "attribute-refused"
        /// The device demands pairing first.
        case notPermitted = "not-permitted"
    }
    public var code: Code
    /// The description for people, without a full stop.
    public var detail: String
    /// The address of the candidate (`LinkProperties.candidate`) to which the link could not be opened; nil: the error is not about a
    /// candidate.
    public var candidate: String?
    /// The action that can remove the reason; nil: unknown.
    public var remedy: UpdateError.Remedy?
    /// The ATT error code with which the device answered a command; nil: another error, or unknown.
    public var attributeError: UInt8?

    public init(
        _ code: Code, _ detail: String, candidate: String? = nil, remedy: UpdateError.Remedy? = nil,
        attributeError: UInt8? = nil
    ) {
        self.code = code
        self.detail = detail
        self.candidate = candidate
        self.remedy = remedy
        self.attributeError = attributeError
    }

    public static func == (left: LinkError, right: LinkError) -> Bool { left.code == right.code }
}

extension LinkError {
    /// The error code with which a session fails at once; nil: the session connects again.
    ///
    /// The session uses this code only before the first answer of the device. After the first answer, the session connects again until no
    /// attempt is left.
    package var withoutRetry: UpdateError.Code? {
        switch code {
        case .unavailable: .linkUnavailable
        case .noSuchDevice: .noSuchDevice
        case .inUse: .deviceInUse
        case .notPermitted: .notPermitted
        case .timedOut, .lost, .refused: nil
        }
    }
}

/// Chooses the length of values so that they fill the link-layer packets of Bluetooth LE.
///
/// A packet carries 251 bytes. The L2CAP and ATT headers of a value take 7 bytes. So a value of 244 bytes fills one packet, and a
/// value of 495 bytes fills two packets. A longer value would need a third packet for at most 17 bytes.
package enum ChunkLength {
    /// The maximum length of an attribute value in the Attribute Protocol (ATT), in bytes.
    package static let longestAttribute = 512

    /// Returns the length for values.
    ///
    /// - Parameters:
    ///   - link: the maximum value length of the link, in bytes.
    ///   - device: the maximum value length that the device reports, in bytes.
    /// - Returns: the length of a value, in bytes.
    package static func planned(link: Int, device: Int = longestAttribute) -> Int {
        let limit = min(link, device, longestAttribute)
        return [495, 244].first { $0 <= limit } ?? limit
    }
}
