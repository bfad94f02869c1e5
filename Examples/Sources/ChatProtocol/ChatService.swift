public import BlueZ

/// The GATT service of a chat. Both peers offer it. A central writes frames (``Frame``) to the characteristic, and a peripheral notifies
/// frames on it.
public enum ChatService {
    /// The advertised UUID of a peer that is in range (``Announcement/Kind/presence``).
    public static let discovery = BluetoothUUID(0x5d0c_0001_7a3e_4f0e_9b55_2f6c_1d8e_4b17)
    /// The service, and the advertised UUID of a peer that calls another peer (``Announcement/Kind/call``).
    public static let uuid = BluetoothUUID(0x9f37_e282_60b6_42b1_a02f_7341_da5e_2eba)
    public static let characteristic = BluetoothUUID(0x890a_a912_c414_440d_88a2_c7f6_6179_589b)

    /// Returns the declaration of the service.
    ///
    /// - Parameter isSecure: whether a central must have paired with numeric comparison.
    public static func declaration(isSecure: Bool) -> LocalService {
        LocalService(
            uuid,
            [LocalCharacteristic(characteristic, [.write, .notify], protection: isSecure ? .authenticated : .none)])
    }
    public static let attribute = LocalAttribute(uuid, characteristic)

    /// Returns the maximum length of a frame. A central that accepts several notifications in one packet gets only MTU − 5 bytes of a
    /// notification from BlueZ, and BlueZ accepts writes of at most 510 bytes.
    public static func maximumFrameLength(mtu: Int) -> Int { min(max(mtu, 23) - 5, 510) }
}

/// The reason why a peer refuses a frame or a message. A peripheral answers the ATT error to the central.
public enum ChatError: Error, Sendable, Hashable, CaseIterable {
    /// The frame has an unknown type or a wrong length, or is not permitted now.
    case malformedFrame
    /// The peer has not proved that it knows the name of the session.
    case otherSession
    /// This peer is not waiting for the other peer, or already has a link.
    case notExpected
    /// The frame does not continue the message, or acknowledges a message that was not sent.
    case wrongPosition
    /// The message is empty, or is longer than ``Conversation/maximumLength`` bytes.
    case wrongLength
    /// The message is not valid UTF-8.
    case notText
    /// More than ``Conversation/maximumWaiting`` bytes would wait for an acknowledgement. A peer does not send this error.
    case tooMuchWaits

    /// The ATT error. The codes 0x80 to 0x9F are for applications (Core Specification, Vol 3, Part F, 3.4.1.1).
    public var attributeError: AttributeError {
        switch self {
        case .malformedFrame: AttributeError(code: 0x80)
        case .otherSession: AttributeError(code: 0x81)
        case .notExpected: AttributeError(code: 0x82)
        case .wrongPosition: AttributeError(code: 0x83)
        case .wrongLength: AttributeError(code: 0x84)
        case .notText: AttributeError(code: 0x85)
        case .tooMuchWaits: AttributeError(code: 0x86)
        }
    }

    /// Translates the error of a write. Nil: the error is not an answer of a peer.
    public init?(_ error: BlueZError) {
        guard let found = Self.allCases.first(where: { $0.attributeError.code == error.attributeError }) else {
            return nil
        }
        self = found
    }
}

extension ChatError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .malformedFrame: "a frame is malformed"
        case .otherSession: "the peers do not have the same --session"
        case .notExpected: "the peer was not called"
        case .wrongPosition: "a frame has a wrong position"
        case .wrongLength: "a message must have 1 to \(Conversation.maximumLength) bytes"
        case .notText: "a message is not valid UTF-8"
        case .tooMuchWaits: "more than \(Conversation.maximumWaiting) bytes would wait for the other peer"
        }
    }
}
