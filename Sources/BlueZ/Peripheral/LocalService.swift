/// A GATT service that this machine offers.
public struct LocalService: Sendable, Hashable {
    public var uuid: BluetoothUUID
    public var characteristics: [LocalCharacteristic]

    public init(_ uuid: BluetoothUUID, _ characteristics: [LocalCharacteristic]) {
        self.uuid = uuid
        self.characteristics = characteristics
    }
}

/// A characteristic of a `LocalService`.
public struct LocalCharacteristic: Sendable, Hashable {
    public enum Operation: Sendable, Hashable, CaseIterable {
        case read, write, writeWithoutResponse, notify, indicate
    }

    /// The security that the link must have before an operation is allowed. bluetoothd enforces it; no handler runs before.
    public enum Protection: Sendable, Hashable, CaseIterable {
        case none
        case encrypted
        /// Encrypted with an authenticated key: a person entered a passkey or compared numbers during pairing.
        case authenticated
    }

    /// An operation for which bluetoothd gets a packet socket instead of bus messages. A socket belongs to the
    /// characteristic, not to a connection: bluetoothd uses one socket for all centrals and keeps it after a disconnection.
    public enum Socket: Sendable, Hashable, CaseIterable {
        /// Writes over a socket. Do not use it for values that must arrive complete and in order.
        ///
        /// If a write arrives before bluetoothd has its first socket, bluetoothd asks for a second one. BlueZ 5.66 then
        /// sends the content that its buffer has when the reply arrives. In one run of five chunks, the first four arrived
        /// as copies of the fifth. The order between the socket and the bus is also undefined. Bus messages have neither
        /// fault, and their throughput is many times that of any link.
        case write
        /// Notifications over a socket. This saves one bus message per notification. The order relative to the
        /// notifications of other characteristics is lost.
        case notify
    }

    public var uuid: BluetoothUUID
    public var operations: Set<Operation>
    public var protection: Protection
    public var sockets: Set<Socket>

    public init(
        _ uuid: BluetoothUUID, _ operations: Set<Operation>, protection: Protection = .none, sockets: Set<Socket> = []
    ) {
        self.uuid = uuid
        self.operations = operations
        self.protection = protection
        self.sockets = sockets
    }

    /// The flags of `GattCharacteristic1.Flags` (BlueZ, `doc/gatt-api.txt`). BlueZ has no flag for a protected write
    /// without response. Therefore such a characteristic also gets the flag for the write with response.
    var flags: [String] {
        let protected =
            switch protection {
            case .none: ""
            case .encrypted: "encrypt-"
            case .authenticated: "encrypt-authenticated-"
            }
        var flags: Set<String> = []
        for operation in operations {
            switch operation {
            case .read: flags.insert(protected + "read")
            case .write: flags.insert(protected + "write")
            case .writeWithoutResponse:
                flags.insert("write-without-response")
                if protection != .none { flags.insert(protected + "write") }
            case .notify: flags.formUnion(["notify", protected + "notify"])
            case .indicate: flags.formUnion(["indicate", protected + "indicate"])
            }
        }
        return flags.sorted()
    }
}
