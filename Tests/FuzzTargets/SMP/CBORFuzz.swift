import OTASMP

/// What is taken for CBOR can be written, and comes back as it was.
enum CBORFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        guard let value = try? CBORDecoder.decode(bytes) else { return nil }
        let written = CBOREncoder.encode(value)
        // A number of two bytes is written with eight.
        guard written.count <= CBORDecoder.longest else { return nil }
        guard let again = try? CBORDecoder.decode(written) else { return "what was written cannot be read" }
        // Not the values: a number that is none equals nothing, not even itself.
        return CBOREncoder.encode(again) == written ? nil : "another value comes out"
    }
}
