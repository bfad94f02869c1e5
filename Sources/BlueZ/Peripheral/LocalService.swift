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

    /// What the link must be like before an operation is allowed. bluetoothd sees to it; no handler is called before.
    public enum Protection: Sendable, Hashable, CaseIterable {
        case none
        case encrypted
        /// Encrypted with a key that a person has vouched for, by a passkey or a comparison.
        case authenticated
    }

    /// Where bluetoothd is offered a packet socket in place of messages on the bus. A socket belongs to the characteristic,
    /// not to a connection: bluetoothd uses the one it has for every central and through every disconnection.
    public enum Socket: Sendable, Hashable, CaseIterable {
        /// Not for what must keep its order, or arrive whole: a write that comes before bluetoothd has its first socket makes
        /// it ask once more, and BlueZ 5.66 then sends what its buffer holds by the time of the answer. Of five chunks in a
        /// row the first four arrived as copies of the fifth. Nor is there an order between the socket and the bus. Messages
        /// on the bus have neither fault, and carry many times what any link does.
        case write
        /// Saves a message on the bus for each notification. Their order relative to other characteristics' is lost.
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

    /// As `GattCharacteristic1.Flags` has them (BlueZ, `doc/gatt-api.txt`). A protected write without response brings the
    /// write with response along: there is no flag of its own for it.
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
