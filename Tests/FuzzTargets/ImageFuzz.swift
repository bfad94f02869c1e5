import OTAFirmware
import OTASigning

/// An image says the same whether it comes in one piece or in many.
enum ImageFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let formats: [ImageFormat?] = [nil, .raw, .espressif, .mcuboot]
        let format = formats[Int(input.next()) % formats.count]
        let piece = 1 + Int(input.next())
        let image = input.bytes(upTo: bytes.count)
        let whole = try? FirmwareInspector.inspect(image, format: format) { SHA256() }
        var inspector = FirmwareInspector(format: format) { SHA256() }
        let parts = try? inspect(image, in: piece, &inspector)
        if let whole, Int(whole.size) != image.count { return "the size of an image of \(image.count) bytes" }
        return whole == parts ? nil : "in pieces of \(piece) bytes it is another image"
    }

    private static func inspect(
        _ image: [UInt8], in piece: Int, _ inspector: inout FirmwareInspector
    ) throws -> FirmwareDescription {
        for start in stride(from: 0, to: image.count, by: piece) {
            try image[start..<min(start + piece, image.count)].withUnsafeBytes { try inspector.update($0) }
        }
        return try inspector.finish()
    }
}
