/// Computes CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection.
///
/// The CRC of "123456789" is 0x31C3. The CRC of a message followed by its own CRC in big-endian order is 0.
enum CRC16 {
    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt16 {
        bytes.reduce(into: 0) { crc, byte in
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
        }
    }
}
