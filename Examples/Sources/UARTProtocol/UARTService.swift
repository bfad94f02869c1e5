public import BlueZ

/// The Nordic UART service. A central writes to RX, and the peripheral notifies on TX.
public enum UARTService {
    public static let uuid = BluetoothUUID(0x6e40_0001_b5a3_f393_e0a9_e50e_24dc_ca9e)
    public static let rx = BluetoothUUID(0x6e40_0002_b5a3_f393_e0a9_e50e_24dc_ca9e)
    public static let tx = BluetoothUUID(0x6e40_0003_b5a3_f393_e0a9_e50e_24dc_ca9e)

    /// The declaration of the service for a peripheral.
    public static let declaration = LocalService(
        uuid, [LocalCharacteristic(rx, [.write, .writeWithoutResponse]), LocalCharacteristic(tx, [.notify])])
    public static let localTX = LocalAttribute(uuid, tx)

    /// The most efficient length of a value, at most `limit` bytes.
    ///
    /// A packet of the link layer carries up to 251 bytes. A value of 242 bytes fills one packet, and a value of 493 bytes fills two packets.
    /// The other bytes are the headers of L2CAP (4) and of a notification (up to 5).
    public static func valueLength(atMost limit: Int) -> Int { [493, 242].first { $0 <= limit } ?? limit }
}
