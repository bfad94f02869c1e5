import OTAFirmware
import Testing

@Suite("MCUboot images") struct MCUbootParserTests {
    private func parsed(_ image: [UInt8]) throws -> MCUbootImage {
        guard case .mcuboot(let parsed) = try inspect(image).details else {
            throw ExpectationFailed("not an MCUboot image")
        }
        return parsed
    }

    /// The expected values are those of `imgtool dumpinfo` for the same file.
    @Test("an image of imgtool is parsed to the values that imgtool prints")
    func anImageOfImgtool() throws {
        let description = try inspect(try MCUbootSample.image())
        #expect(description.format == .mcuboot)
        #expect(description.size == 258)
        #expect(description.notes.isEmpty)
        #expect(description.versionText == "1.2.3+4")
        #expect(description.version == SemanticVersion("1.2.3+4"))
        #expect(description.product == nil)
        let image = try parsed(try MCUbootSample.image())
        #expect(image.headerSize == 32)
        #expect(image.bodySize == 64)
        #expect(image.flags == 0 && !image.isEncrypted)
        #expect(image.loadAddress == 0)
        #expect(image.securityCounter == 9)
        #expect(image.signedLength == 0x72)
        #expect(image.length == 258)
        #expect(image.protectedTLVs.map(\.type) == [0x50, 0xA1])
        #expect(image.protectedTLVs.map(\.value) == [[9, 0, 0, 0], [0xBE, 0xEF]])
        #expect(image.tlvs.map(\.name) == ["SHA256", "KEYHASH", "ED25519"])
        #expect(image.tlvs.map(\.value.count) == [32, 32, 64])
        #expect(image.digest == (try digest("af422b21042d9cb348b6b264a532099b282d3a567b8b2994f136114d60142857")))
        #expect(image.tlvs.first?.value == image.digest?.bytes)
    }

    @Test("the description of an MCUboot image does not depend on the block size")
    func anyChunkSize() throws {
        let image =
            try MCUbootSample.image() + [UInt8](repeating: 0xFF, count: 700) + hex(MCUbootSample.Trailer.confirmed)
        let whole = try inspect(image)
        for size in Array(1...70) + [255, 258, 900] {
            #expect(try inspect(image, inChunksOf: size) == whole, "chunks of \(size)")
        }
    }

    @Test("each truncated MCUboot image is refused")
    func everyTruncationIsRefused() throws {
        let image = try MCUbootSample.image()
        for length in 4..<image.count {
            let error = refusal(Array(image.prefix(length)))
            #expect(error?.code == .truncatedImage, "cut to \(length) bytes")
        }
    }

    /// The digest covers header, body and protected TLVs. Other checks or a signature protect the other bytes.
    @Test("a damaged byte before the TLVs of an MCUboot image is refused")
    func everyDamagedByteBeforeTheTLVsIsRefused() throws {
        let image = try MCUbootSample.image()
        for index in 4..<0x72 {
            var damaged = image
            damaged[index] ^= 0x10
            #expect(throws: ImageError.self, "byte \(index)") { try inspect(damaged) }
        }
    }

    @Test(
        "a wrong byte in an MCUboot image is refused with its offset, or gives a note",
        arguments: [
            (8, 31, .badImageHeader, 8), (10, 0, .badImageHeader, 0x60), (10, 0x13, .badImageHeader, 0x62),
            (0x60, 7, .badImageHeader, 0x60), (0x62, 0x11, .badImageHeader, 0x62), (0x66, 9, .badImageHeader, 0x71),
            (0x66, 6, .badImageHeader, 0x72), (0x72, 8, .badImageHeader, 0x72), (0x74, 3, .badImageHeader, 0x74),
            (0x74, 0x8F, .badImageHeader, 0xC2), (0x78, 33, .badImageHeader, 0x9F),
            (0x76, 0x11, nil, 0), (0x7A, 0, .badImageDigest, 0x72), (0x20, 1, .badImageDigest, 0x72),
            (12, 0x41, .badImageHeader, 0x61), (15, 0xFF, .truncatedImage, 32),
        ] as [(Int, UInt8, ImageError.Code?, UInt64)])
    func oneByteWrong(at offset: Int, value: UInt8, code: ImageError.Code?, where found: UInt64) throws {
        var image = try MCUbootSample.image()
        image[offset] = value
        guard let code else {
            #expect(
                try inspect(image).notes == [
                    "the image has no SHA-256, so its body was not checked", "the SHA384 digest was not checked",
                ])
            return
        }
        let error = refusal(image)
        #expect(error?.code == code)
        #expect(error?.offset == found)
    }

    @Test("an image with two SHA-256 digests is refused if one of them is wrong")
    func aSecondDigest() throws {
        var image = try MCUbootSample.image()
        image[0x74] += 36
        image += [0x10, 0, 32, 0] + image[0x7A..<0x9A]
        #expect(try inspect(image).notes.isEmpty)
        image[image.count - 1] ^= 1
        #expect(refusal(image)?.code == .badImageDigest)
    }

    @Test("an MCUboot image with SHA-512 only is accepted with notes")
    func anotherDigestIsNotChecked() throws {
        let description = try inspect(try MCUbootSample.imageWithSHA512())
        #expect(
            description.notes == [
                "the image has no SHA-256, so its body was not checked", "the SHA512 digest was not checked",
            ])
        #expect(try parsed(try MCUbootSample.imageWithSHA512()).digest == nil)
    }

    @Test("an MCUboot version without a build number has three parts")
    func versionsWithAndWithoutABuildNumber() throws {
        let image = MCUbootSample.image(plain: [0x07, 0x69, 4, 0])
        #expect(try inspect(image).versionText == "1.0.0")
        #expect(try inspect(image).version == SemanticVersion("1.0.0"))
    }

    @Test("the digest of an encrypted MCUboot image is not checked")
    func anEncryptedBodyHasTheDigestOfItsPlainText() throws {
        let digestOfSomethingElse: [UInt8] = [0x07, 0x69, 40, 0, 0x10, 0, 32, 0] + [UInt8](repeating: 7, count: 32)
        #expect(refusal(MCUbootSample.image(plain: digestOfSomethingElse))?.code == .badImageDigest)
        let encrypted = try inspect(MCUbootSample.image(flags: 4, plain: digestOfSomethingElse))
        #expect(encrypted.notes == ["the body is encrypted, so its digest was not checked"])
    }

    @Test("a missing SHA-256, unchecked signatures and the not-bootable flag give notes")
    func whatIsNoteworthy() throws {
        let signatures: [UInt8] = [0x07, 0x69, 13, 0, 0x20, 0, 0, 0, 0x22, 0, 1, 0, 9]
        #expect(
            try inspect(MCUbootSample.image(flags: 0x10, plain: signatures)).notes == [
                "the image has no SHA-256, so its body was not checked", "the image is marked as not bootable",
                "the RSA2048 signature was not checked", "the ECDSASIG signature was not checked",
            ])
    }

    @Test("the security counter is read only from a protected TLV of four bytes")
    func aSecurityCounterIsFourProtectedBytes() throws {
        func counter(_ value: [UInt8]) throws -> UInt32? {
            let area = [0x08, 0x69, UInt8(8 + value.count), 0, 0x50, 0, UInt8(value.count), 0] + value
            return try parsed(MCUbootSample.image(protected: area, plain: [0x07, 0x69, 4, 0])).securityCounter
        }
        #expect(try counter([1, 2, 3, 4]) == 0x0403_0201)
        #expect(try counter([1, 2, 3]) == nil)
        let unprotected = MCUbootSample.image(plain: [0x07, 0x69, 12, 0, 0x50, 0, 4, 0, 1, 0, 0, 0])
        #expect(try parsed(unprotected).securityCounter == nil)
    }

    @Test("slot padding and a valid trailer may follow an MCUboot image")
    func whatMayFollow() throws {
        let image = try MCUbootSample.image()
        let padding = [UInt8](repeating: 0xFF, count: 100)
        #expect(try inspect(image + padding).notes == ["100 bytes of slot padding follow the image"])
        #expect(
            try inspect(image + padding + hex(MCUbootSample.Trailer.plain)).notes
                == ["116 bytes of slot padding and the bootloader's trailer follow the image"])
        let confirmed = "the bootloader's trailer follow the image, which marks the image as confirmed"
        #expect(
            try inspect(image + padding + hex(MCUbootSample.Trailer.confirmed)).notes
                == ["124 bytes of slot padding and \(confirmed)"])
        #expect(
            try inspect(image + padding + hex(MCUbootSample.Trailer.confirmedInUnitsOf32)).notes
                == ["164 bytes of slot padding and \(confirmed)"])
        let zeros = [UInt8](repeating: 0, count: 100)
        #expect(
            try inspect(image + zeros + hex(MCUbootSample.Trailer.confirmedOnZeros)).notes
                == ["132 bytes of slot padding and \(confirmed)"])
    }

    @Test("all other bytes after an MCUboot image are refused with their offset")
    func whatMayNotFollow() throws {
        let image = try MCUbootSample.image()
        let padding = [UInt8](repeating: 0xFF, count: 100)
        let magic = try hex(MCUbootSample.Trailer.plain)
        let cases: [(String, [UInt8], UInt64)] = [
            ("a byte", image + [1], 258),
            ("a byte after padding", image + padding + [0xFE], 358),
            ("zeros after padding", image + padding + [0, 0], 358),
            ("a wrong magic", image + padding + magic.dropLast() + [0], 358),
            ("half of a magic", image + padding + magic.prefix(8), 358),
            ("padding after the magic", image + padding + magic + [0xFF], 358),
            ("an invalid flag", image + padding + [2, 0xFF] + magic, 358),
            ("a second flag", image + padding + [1, 0xFF, 1] + magic, 358),
            ("another image", image + padding + image, 358),
        ]
        for (name, bytes, offset) in cases {
            let error = refusal(bytes)
            #expect(error?.code == .trailingImageBytes, "\(name)")
            #expect(error?.offset == offset, "\(name)")
        }
    }
}

/// The error of a test helper that cannot continue.
struct ExpectationFailed: Error {
    let reason: String

    init(_ reason: String) { self.reason = reason }
}
