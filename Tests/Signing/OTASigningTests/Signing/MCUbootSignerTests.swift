import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

@Suite("Signing MCUboot images") struct MCUbootSignerTests {
    @Test("100 random images are identical to those of imgtool, and each tool verifies them")
    func aHundredImagesAreThoseOfImgtool() async throws {
        let folder = try TemporaryFolder()
        let key = try SampleKey.key()
        let verifier = try SampleKey.verifier()
        var random = SplitMix64(seed: 2026)
        let cases = try (0..<100).map { _ in try RandomLayout(&random) }
        var commands: [[String]] = []
        for (index, made) in cases.enumerated() {
            let program = try folder.write("\(index).bin", made.program)
            let ours = folder / "\(index).ours.bin"
            _ = try MCUbootSigner(key: key, scheme: made.scheme).sign(program, as: made.layout, to: ours)
            let theirs = (folder / "\(index).theirs.bin").string
            commands.append(["sign", "--key", SampleKey.path.string] + made.options + [program.string, theirs])
            commands.append(["verify", "--key", SampleKey.publicPath.string, ours.string])
            commands.append(["dumpinfo", ours.string])
        }
        let answers = try await Imgtool.run(commands)
        for (command, answer) in zip(commands, answers) {
            #expect(answer.succeeded, "\(command): \(answer.output)")
        }
        for (index, made) in cases.enumerated() {
            let theirs = try contents(of: folder / "\(index).theirs.bin")
            #expect(try contents(of: folder / "\(index).ours.bin") == theirs, "\(made.options)")
            let image = try verifier.verify(MCUbootFile(parsing: theirs))
            #expect(image.authorization == .signature(key.publicKey.id))
            #expect(
                image.image.version == made.layout.version && image.image.securityCounter == made.layout.securityCounter
            )
            #expect(answers[3 * index + 1].output.contains("Image was correctly validated"))
        }
        #expect(cases.contains { $0.scheme == .pure } && cases.contains { $0.layout.filling == .confirmedTrailer })
    }

    /// With `--sha 512` the image contains only a SHA-512. With `full` it contains the public key instead of its hash.
    @Test("images of imgtool with SHA-512 or with the whole public key are verified")
    func whatElseImgtoolMakesIsVerified() async throws {
        let folder = try TemporaryFolder()
        let program = try folder.write("program.bin", [1] + [UInt8](repeating: 7, count: 2999)).string
        let variants = [
            ["--sha", "512"], ["--public-key-format", "full"], ["--sha", "512", "--public-key-format", "full"],
        ]
        let names = variants.indices.map { (folder / "\($0).bin").string }
        let answers = try await Imgtool.run(
            zip(variants, names).map { options, name in
                [
                    "sign", "--key", SampleKey.path.string, "--version", "1.0.0", "--header-size", "32", "--pad-header",
                    "--slot-size", "0x8000",
                ] + options + [program, name]
            })
        #expect(answers.allSatisfy { $0.succeeded })
        for name in names {
            let file = try MCUbootFile(parsing: contents(of: FilePath(name)))
            #expect(try SampleKey.verifier().verify(file).authorization == .signature(SampleKey.key().publicKey.id))
            let stranger = try Verifier(trust: TrustStore([RFC8032.test1.privateKey().publicKey]))
            #expect(throws: VerificationError(.untrustedKey, "")) { try stranger.verify(file) }
        }
    }

    @Test("this verifier and imgtool refuse an image with one flipped bit")
    func bothRefuseAFlippedByte() async throws {
        let folder = try TemporaryFolder()
        var random = SplitMix64(seed: 7)
        var paths: [FilePath] = []
        for index in 0..<40 {
            let made = try RandomLayout(&random, largest: 300)
            let file = try MCUbootFile(
                parsing: MCUbootSigner(key: SampleKey.key(), scheme: made.scheme).sign(made.program, as: made.layout))
            var bytes = file.bytes
            // The bit is after the header, because imgtool fails in other ways for a damaged header.
            let position = 32 + Int(random.next() % (file.image.signedLength - 32))
            bytes[position] ^= 1 << UInt8(random.next() % 8)
            paths.append(try folder.write("\(index).bin", bytes))
            #expect(throws: (any Error).self, "byte \(position)") {
                try SampleKey.verifier().verify(MCUbootFile(parsing: bytes))
            }
        }
        let answers = try await Imgtool.run(paths.map { ["verify", "--key", SampleKey.publicPath.string, $0.string] })
        #expect(answers.allSatisfy { !$0.succeeded })
    }

    @Test("signing the sample binary or its Intel HEX text gives the sample image")
    func theSamplesAreMadeAgain() throws {
        let layout = try {
            var layout = MCUbootLayout(version: try mcubootVersion("1.1.0"), headerSize: 0x200)
            layout.padsHeader = true
            layout.slotSize = 0x64000
            layout.alignment = 8
            layout.securityCounter = 2
            return layout
        }()
        let made = try MCUbootSigner(key: SampleKey.key()).sign(Repository.sample("acme-beacon-1.1.0.bin"), as: layout)
        #expect(made == (try Repository.sample("acme-beacon-1.1.0.mcuboot.bin")))
        let folder = try TemporaryFolder()
        let hex = Repository.samples.appending("acme-beacon-1.1.0.hex")
        _ = try MCUbootSigner(key: SampleKey.key()).sign(hex, as: layout, to: folder / "from-hex.bin")
        #expect(try contents(of: folder / "from-hex.bin") == made)
    }

    // MARK: Errors

    private func refusal(of program: [UInt8], _ change: (inout MCUbootLayout) -> Void) throws -> SigningError? {
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 64)
        change(&layout)
        return #expect(throws: SigningError.self) { try MCUbootSigner(key: SampleKey.key()).sign(program, as: layout) }
    }

    @Test("a binary without zero bytes in place of the header is refused")
    func theHeaderNeedsRoom() throws {
        let expected = SigningError.refused(.headerNotEmpty, context: "")
        #expect(try refusal(of: [UInt8](repeating: 0, count: 63)) { _ in } == expected)
        #expect(try refusal(of: [UInt8](repeating: 0, count: 63) + [1, 2]) { _ in } == expected)
    }

    /// The image needs the header, the body, 4 + 36 + 36 + 68 bytes of TLVs, and the trailer.
    @Test("an image that exceeds the slot by one byte is refused")
    func theSlotNeedsRoom() throws {
        let program = [UInt8](repeating: 1, count: 100)
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 32)
        layout.padsHeader = true
        let needed = 32 + 100 + 144 + UInt32(layout.trailerSize)
        #expect(layout.trailerSize == 128 * 3 + 32 + 16)
        for filling in [MCUbootLayout.Filling.none, .trailer] {
            layout.filling = filling
            layout.slotSize = needed
            let made = try MCUbootSigner(key: SampleKey.key()).sign(program, as: layout)
            #expect(made.count == (filling == .none ? 276 : Int(needed)))
            layout.slotSize = needed - 1
            #expect(throws: SigningError.refused(.slotTooSmall, context: "")) {
                try MCUbootSigner(key: SampleKey.key()).sign(program, as: layout)
            }
        }
    }

    @Test(
        "a file that is not a linked binary is refused",
        arguments: [
            ("acme-beacon-1.1.0.mcuboot.bin", "already-an-image"), ("mcuboot-sample-key.pem", "not-an-image"),
        ])
    func whatIsNoProgram(name: String, code: String) throws {
        let folder = try TemporaryFolder()
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 64)
        layout.padsHeader = true
        let signer = try MCUbootSigner(key: SampleKey.key())
        let output = folder / "out.bin"
        let error = #expect(throws: SigningError.self) {
            try signer.sign(Repository.samples.appending(name), as: layout, to: output)
        }
        #expect(error?.code == code)
        #expect(folder.names().isEmpty)
        for (head, code) in [
            ([0x7F] + Array("ELF".utf8), "not-an-image"), (Array("PK\u{3}\u{4}".utf8), "not-an-image"),
            ([], "empty-image"),
        ] {
            let input = try folder.write("input", head + (head.isEmpty ? [] : [UInt8](repeating: 0, count: 40)))
            let error = #expect(throws: SigningError.self) { try signer.sign(input, as: layout, to: output) }
            #expect(error?.code == code)
        }
    }

    @Test("an existing file is replaced only if requested")
    func anExistingFileIsKept() throws {
        let folder = try TemporaryFolder()
        let input = try folder.write("program", [1, 2, 3]), output = try folder.write("out", [9])
        var layout = MCUbootLayout(version: try mcubootVersion("1.0.0"), headerSize: 64)
        layout.padsHeader = true
        let signer = try MCUbootSigner(key: SampleKey.key())
        #expect(throws: SigningError.refused(.outputExists, context: "")) {
            try signer.sign(input, as: layout, to: output)
        }
        #expect(try contents(of: output) == [9])
        _ = try signer.sign(input, as: layout, to: output, replace: true)
        #expect(try contents(of: output).count == 64 + 3 + 144)
    }
}
