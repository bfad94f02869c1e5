import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate
import Testing

enum ExampleImage {
    /// Returns an image with a random body of this length, signed with a new key.
    static func make(_ version: (UInt8, UInt8, UInt16, UInt32) = (1, 1, 0, 0), bytes: Int = 3000) throws
        -> VerifiedImage
    {
        var random = SplitMix64(seed: UInt64(bytes))
        let key = try PrivateKey.generate()
        let body = (0..<bytes).map { _ in UInt8.random(in: 0...255, using: &random) }
        return try verified(try SampleImage(version, body: body, key: key).bytes(), by: key.publicKey)
    }

    /// Returns an image of version 1.4.0. imgtool 2.5.0 made it with `--sha 512`, so it has no SHA-256.
    static func sha512() throws -> VerifiedImage {
        let bytes = try #require(Hex.decode(sha512Hex.filter { $0 != "\n" }))
        let key = try #require(Hex.decode("feac747a2af3af927d59af7deea2de56ad60685fedb4a73e293364577dfcd0b0"))
        return try verified(bytes, by: try PublicKey(bytes: key))
    }

    /// Returns an image of version 1.1.0 with the digest of its decompressed form in a TLV.
    static func compressed(unpacked: [UInt8], isProtected: Bool = true) throws -> VerifiedImage {
        let key = try PrivateKey.generate()
        let tlv =
            [MCUbootTLV.unpackedDigest, UInt16(unpacked.count)].flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
            + unpacked
        var sample = SampleImage((1, 1, 0, 0), body: [UInt8](repeating: 3, count: 3000), key: key)
        if isProtected { sample.protectedRecords = tlv } else { sample.otherRecords = tlv }
        return try verified(try sample.bytes(), by: key.publicKey)
    }

    private static func verified(_ bytes: [UInt8], by key: PublicKey) throws -> VerifiedImage {
        try Verifier(trust: try TrustStore([key])).verify(try MCUbootFile(parsing: bytes))
    }

    private static let sha512Hex = """
        3db8f39600000000200000002c010000000000000104000000000000000000007f8b98e877178515aa267ac40e11d9556507a544e9a5ef
        3f26d69f382ba23509546321d2c720542fb2ca7abdec02ea165613fb072e9536ba6a24a76188011a6ee51c802c54cf0e2ea6b0d74b0dd9
        73070cc0c21433895a95bc3166512cc8a2bd8f46e50379d34e58931b2c81f90b7422717ddaf1d21861f99135b576702873625a9f586eb8
        16cc06bb479c5e8d182e3902c4c59938ca3189d1fae0f44c754863138d00ea6b438026c2f53f0dd75a77bf92a5e45c49bac6b7dc198b10
        04cf0b71ac7a2d8191ed2b4066f1c5b2dc289f967deecf6c4c77f6307bf1217fec60dce03c752b94e5d76fc02fe21de2ae7fa6cdb9baf6
        ab958f03f656e6bd06e58ac691e35d77abf39fa499ce5a5e85ea05b05b1a8ff1c3a73e468cdc93f2d14e83b2bb1d9d9e61b5b812a095a7
        33e70769d00012004000fec54771f7b2220cbfb3e70bfa787c963f7928443c88065e2c3676749bb892df43e662befaffeb53f9a90aeb5a
        379f8df45973e2d8ba630a3e18270562b33a1801004000f7a4abcda69e773635ee0be73746920c8eb67904f2fb0f9bf266dab0abb06450
        266bf6923a5d5941750ff46b6217a8b76cff2a3ac132130887cb4ba4b7416b9924004000d8ae5d37720d434d09102e9cae4fca3cd141cf
        f233586764e608437a535e40a5e498f501b47d02cfaffa5bf05d65b626fc7663b549999d2c6e198c7bb1436004
        """
}

extension VerifiedImage {
    /// Returns the image as a device lists it.
    func listed(_ type: UInt16 = 0x10) -> PlayedSlots.Image {
        let digest = image.tlvs.first { $0.type == type }?.value ?? []
        return PlayedSlots.Image(digest: digest, version: image.version.description)
    }
}
