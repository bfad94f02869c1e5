import Glibc

/// The end that opened a link.
public enum LinkOpener: Sendable, Hashable {
    /// The other device. It is a central of this machine.
    case central
    /// This machine: this program or another one. The other device is a peripheral.
    case host
    /// The kernel does not list the link. Either the link has already ended, or this process must not use Bluetooth sockets, for example in
    /// a container.
    case unknown
}

/// The links of an adapter, as the kernel lists them. bluetoothd reports a link, but not the end that opened it.
package enum KernelLinks {
    private static let bluetooth: CInt = 31  // AF_BLUETOOTH
    private static let hci: CInt = 1  // BTPROTO_HCI
    private static let list: UInt = 0x8004_48D4  // HCIGETCONNLIST
    /// The number of links to ask for. An adapter has fewer.
    private static let limit: UInt16 = 64
    private static let headerLength = 4
    private static let entryLength = 16

    /// Returns the end that opened the LE link to a device.
    ///
    /// - Parameter adapter: the name of the adapter, such as `hci1`.
    static func opener(of device: BluetoothAddress, over adapter: String) -> LinkOpener {
        guard let number = UInt16(adapter.trimmingPrefix("hci")) else { return .unknown }
        let socket = socket(bluetooth, CInt(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), hci)
        guard socket >= 0 else { return .unknown }
        defer { close(socket) }
        var bytes = [UInt8](repeating: 0, count: headerLength + Int(limit) * entryLength)
        bytes.withUnsafeMutableBytes {
            $0.storeBytes(of: number, toByteOffset: 0, as: UInt16.self)
            $0.storeBytes(of: limit, toByteOffset: 2, as: UInt16.self)
        }
        guard ioctl(socket, list, &bytes) == 0 else { return .unknown }
        return opener(of: device, in: bytes)
    }

    /// Reads the answer of the kernel: the number of the adapter and the number of links (16 bits each), and then for each link (`struct
    /// hci_conn_info` in `include/net/bluetooth/hci_sock.h`): handle (16 bits), address (6 bytes, the last byte of its text first), type (8
    /// bits, 0x80: LE), direction (8 bits), state (16 bits), and mode (32 bits, bit 0: this machine is the central).
    ///
    /// All numbers are in the byte order of the machine. The mode is more exact than the direction, which is 0 for some links that the
    /// kernel opens by itself.
    package static func opener(of device: BluetoothAddress, in answer: [UInt8]) -> LinkOpener {
        guard answer.count >= headerLength else { return .unknown }
        return answer.withUnsafeBytes { bytes in
            let count = Int(bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
            for start in (0..<count).map({ headerLength + $0 * entryLength }) {
                guard start + entryLength <= bytes.count else { break }
                let address = (0..<6).reduce(UInt64(0)) { $0 | UInt64(bytes[start + 2 + $1]) << UInt64(8 * $1) }
                guard address == device.value, bytes[start + 8] == 0x80 else { continue }
                let mode = bytes.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self)
                return mode & 1 == 0 ? .central : .host
            }
            return .unknown
        }
    }
}
