public import BlueZ

/// The identity of a peer: a random number that a peer chooses when its program starts. Two peers that have lost the link find their
/// conversation by it. A program that was started again is a new peer.
public struct PeerID: Sendable, Hashable {
    public let value: UInt32

    public init(_ value: UInt32) { self.value = value }

    public static func random() -> PeerID { PeerID(.random(in: .min ... .max)) }
}

/// The advertised data of a peer: its presence, or its call to another peer.
///
/// The data of the company identifier 0xFFFF (for tests) has 6 bytes, little-endian: 15 bits of the session and one bit for a call, and the
/// identity of the advertising peer or, in a call, of the called peer. Together with the flags and one 128-bit UUID, it fills an advertising
/// packet.
public struct Announcement: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        /// The advertising peer with this identity is in range.
        case presence(PeerID)
        /// The advertising peer waits for a link from the peer with this identity.
        case call(PeerID)
    }

    private static let company: UInt16 = 0xFFFF
    private static let callBit: UInt16 = 0x8000

    public var kind: Kind
    /// A number that is computed from the session. It only keeps peers of another session out of the list, because every program can
    /// advertise every number. ``Handshake`` proves that a peer knows the session.
    public var tag: UInt16

    public init(_ kind: Kind, _ session: Session) {
        self.kind = kind
        tag = session.tag
    }

    /// Reads the advertised data of a device. Nil: the device is not a peer.
    public init?(_ manufacturerData: [UInt16: [UInt8]]) {
        guard let bytes = manufacturerData[Self.company], bytes.count == 6 else { return nil }
        let head = UInt16(littleEndian: bytes[0..<2])
        let peer = PeerID(UInt32(littleEndian: bytes[2..<6]))
        tag = head & ~Self.callBit
        kind = head & Self.callBit == 0 ? .presence(peer) : .call(peer)
    }

    public var manufacturerData: [UInt16: [UInt8]] {
        let (head, peer) =
            switch kind {
            case .presence(let peer): (tag, peer)
            case .call(let peer): (tag | Self.callBit, peer)
            }
        return [Self.company: head.littleEndianBytes + peer.value.littleEndianBytes]
    }

    /// The advertised UUID.
    public var service: BluetoothUUID {
        switch kind {
        case .presence: ChatService.discovery
        case .call: ChatService.uuid
        }
    }

    /// Returns the advertisement of a peer with this name. An interval of 0.1 s makes a new peer visible at once.
    public func advertisement(name: String) -> Advertisement {
        Advertisement(
            serviceUUIDs: [service], localName: name, manufacturerData: manufacturerData,
            interval: .milliseconds(100) ... .milliseconds(150))
    }
}

extension FixedWidthInteger {
    /// Reads a little-endian integer from exactly the bytes that it needs.
    init(littleEndian bytes: some Collection<UInt8>) {
        self = bytes.enumerated().reduce(0) { $0 | Self($1.element) << Self(8 * $1.offset) }
    }

    var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }
}
