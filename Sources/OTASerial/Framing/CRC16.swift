/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection. Of "123456789" it is 0x31C3. Over a text that its own
/// big-endian CRC follows it is 0.
enum CRC16 {
    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt16 {
        bytes.reduce(into: 0) { crc, byte in
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
        }
    }
}
