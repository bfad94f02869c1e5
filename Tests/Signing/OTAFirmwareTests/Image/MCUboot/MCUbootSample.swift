import OTAFirmware

/// MCUboot images in the format of imgtool 2.5.0.
enum MCUbootSample {
    /// An image with a body of 64 bytes. Byte i of the body is 7 × i mod 256.
    ///
    /// It was created by `imgtool sign --key ed25519.pem --sha 256 --version 1.2.3+4
    /// --header-size 32 --pad-header --align 8 --slot-size 8192 --security-counter 9 --custom-tlv 0x00a1 0xbeef`.
    static func image() throws -> [UInt8] {
        try hex(
            """
            3db8f39600000000200012004000000000000000010203000400000000000000
            00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9
            e0e7eef5fc030a11181f262d343b424950575e656c737a81888f969da4abb2b9
            086912005000040009000000a1000200beef0769900010002000af422b21042d
            9cb348b6b264a532099b282d3a567b8b2994f136114d60142857010020001658
            36d47098e5776c8028f412bda87194142af48526eed00208bb8785e520232400
            4000a823fc9ae9dbb747e03346713beef64e4c09a3aaee42f040779c96a268c9
            a6c0c95bac9e0111bd0a10ad21b734523c6aff8b58a3be5d2b855abfd92c3d05
            eb08
            """)
    }

    /// An image with the same body, created by `imgtool sign --sha 512 --version 1.2.3+4 --header-size 32 --pad-header`.
    static func imageWithSHA512() throws -> [UInt8] {
        try hex(
            """
            3db8f39600000000200000004000000000000000010203000400000000000000
            00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9
            e0e7eef5fc030a11181f262d343b424950575e656c737a81888f969da4abb2b9
            0769480012004000a83724ad43d49b50e0295a2c550261a7a51c8bba38ecea25
            7ac0091fde291b0fd88a1072a86337c7ca3afaad7b0bf2450703fae50105d6fa
            cd9399ccaa5b57e2
            """)
    }

    /// The last bytes of slots that imgtool's `--pad` filled.
    enum Trailer {
        /// The options were `--align 8`.
        static let plain = "77c295f360d2ef7f3552500f2cb67980"
        /// The options were `--align 8 --confirm`.
        static let confirmed = "01ffffffffffffff77c295f360d2ef7f3552500f2cb67980"
        /// The options were `--max-align 32 --confirm`.
        static let confirmedInUnitsOf32 =
            "01" + String(repeating: "ff", count: 47) + "20002de15d29410b8d77679c110f1f8a"
        /// The options were `--max-align 16 --confirm --erased-val 0`.
        static let confirmedOnZeros = "01" + String(repeating: "00", count: 15) + "10002de15d29410b8d77679c110f1f8a"
    }

    /// Returns an image with any TLV areas. It is created without imgtool, so that unusual images can be tested.
    static func image(flags: UInt32 = 0, protected: [UInt8] = [], plain: [UInt8], headerSize: UInt16 = 32) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(UInt32(0x96F3_B83D))
        writer.write(UInt32(0))
        writer.write(headerSize)
        writer.write(UInt16(protected.count))
        writer.write(UInt32(4))
        writer.write(flags)
        writer.write([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        writer.writeZeros(Int(headerSize) - 32)
        writer.write([1, 2, 3, 4])
        writer.write(protected)
        writer.write(plain)
        return writer.bytes
    }
}
