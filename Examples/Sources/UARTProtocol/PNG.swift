import OTAFirmware

/// Checks and generates images.
public enum PNG {
    /// The sizes that the protocol supports, in bytes.
    public static let sizes = 1024...204_800
    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    /// Whether the bytes have the signature of PNG and a supported size.
    public static func isSupported(_ bytes: [UInt8]) -> Bool {
        bytes.starts(with: signature) && sizes.contains(bytes.count)
    }

    /// Generates a grayscale image of 256 columns with diagonal stripes. It is not compressed, so the number of rows determines its size.
    ///
    /// - Parameter size: the size of the PNG in bytes. The generated PNG is at most one row smaller, and a text fills the rest.
    public static func generate(size: Int) -> [UInt8] {
        // Signature, IHDR and IEND, the frame of IDAT with the header and the checksum of zlib, and the frame of tEXt with its keyword.
        let fixed = 8 + 25 + 12 + 12 + 6 + 12 + 8
        let blockHeader = 5
        let room = size - fixed
        var rows = max(1, room / 257)
        while rows > 1, rows * 257 + (rows * 257 + 65534) / 65535 * blockHeader > room { rows -= 1 }
        // Each row has the filter 0 and 256 pixels.
        let pixels: [UInt8] = (0..<rows * 257).map { index in
            let (row, column) = index.quotientAndRemainder(dividingBy: 257)
            return column == 0 ? 0 : UInt8(truncatingIfNeeded: (row + column) * 4)
        }
        let image = zlib(pixels)
        let filler = [UInt8](repeating: UInt8(ascii: " "), count: max(0, room + 6 - image.count))
        return signature
            + chunk("IHDR", [0, 0, 1, 0] + bigEndian(UInt32(rows)) + [8, 0, 0, 0, 0])
            + chunk("tEXt", Array("Comment".utf8) + [0] + filler)
            + chunk("IDAT", image) + chunk("IEND", [])
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        bigEndian(UInt32(data.count)) + type.utf8 + data + bigEndian(CRC32.checksum(of: Array(type.utf8) + data))
    }

    /// Stores the bytes in blocks without compression (RFC 1950 and RFC 1951).
    private static func zlib(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = [0x78, 0x01]
        var rest = bytes[...]
        repeat {
            let block = rest.prefix(65535)
            rest = rest.dropFirst(65535)
            let count = UInt16(block.count)
            stream += [rest.isEmpty ? 1 : 0] + littleEndian(count) + littleEndian(~count) + block
        } while !rest.isEmpty
        let (low, high) = bytes.reduce((UInt32(1), UInt32(0))) { sums, byte in
            let low = (sums.0 + UInt32(byte)) % 65521
            return (low, (sums.1 + low) % 65521)
        }
        return stream + bigEndian(high << 16 | low)
    }

    private static func bigEndian(_ number: UInt32) -> [UInt8] {
        (0..<4).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func littleEndian(_ number: UInt16) -> [UInt8] {
        [UInt8(truncatingIfNeeded: number), UInt8(number >> 8)]
    }
}
