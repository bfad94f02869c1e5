import OTAFirmware
import OTATestSupport
import Testing

@Suite("Init packets of Nordic DFU packages") struct NordicSectionTests {
    /// app.dat in Tests/Support/nordic-packages/secure.zip, which nrfutil 6.1.7 created.
    static let secure =
        Hex.decode(
            "128b010a4508011241080710341a04a302b6012000280030003884044224080312205f28ac2ac9f1bc52d204cb2e"
                + "50cb6d8e9240c54f6cd611848cd358edac8a8da7480052040801120010001a4020b2b6230360138a0ff6ed092bbf"
                + "a7b95907243fca6a957092ecb4451e1f9eb50ba1a9ca6a70fb85af473b44af5b92a4f0f33c4652f76e50cd85fb01"
                + "cfa5865d") ?? []
    static let image: [UInt8] = (0..<516).map { (index: Int) -> UInt8 in UInt8((index * index + 7 * index) % 251) }
    private static let digest = "a78d8aaced58d38c8411d66c4fc540928e6dcb502ecb04d252bcf1c92aac285f"

    static func section(
        _ packet: [UInt8], _ part: NordicSection.Part = .application, _ image: [UInt8] = image,
        as dfuProtocol: NordicPackage.DFUProtocol = .secure, sizes: (UInt32?, UInt32?) = (nil, nil)
    ) throws(PackageError) -> NordicSection {
        try NordicSection(
            part, as: dfuProtocol, image: image, named: "app.bin", initPacket: packet,
            sizes: .init(softDevice: sizes.0, bootloader: sizes.1))
    }

    private func code(_ body: () throws(PackageError) -> NordicSection) -> PackageError.Code? {
        do {
            _ = try body()
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: Secure DFU

    @Test("the fields of an init packet of nrfutil are those that nrfutil pkg display prints")
    func secureFields() throws {
        let section = try Self.section(Self.secure)
        guard case .secure(let packet) = section.initPacket else {
            Issue.record("not a secure init packet")
            return
        }
        #expect(packet.firmwareVersion == 7 && packet.hardwareVersion == 52 && packet.softDevices == [0x123, 0xB6])
        #expect(packet.type == .application && packet.applicationSize == 516 && !packet.isDebug)
        #expect(packet.softDeviceSize == 0 && packet.bootloaderSize == 0 && packet.bootValidation == [.crc])
        #expect(packet.digest.description == Self.digest, "the bytes in the packet are reversed")
        #expect(packet.unknownFields.isEmpty && packet.signedBytes.count == 65 && section.hardware == 52)
        guard case .ecdsaP256(let signature) = section.signature else {
            Issue.record("no ECDSA signature")
            return
        }
        // OpenSSL verifies these numbers (Tests/CommandLine/OTACommandsTests/NordicTests.swift).
        #expect(signature == Self.secure.suffix(64).prefix(32).reversed() + Self.secure.suffix(32).reversed())
    }

    @Test("an init packet that is cut at any place is refused")
    func cuts() {
        for count in Self.secure.indices {
            #expect(
                code { () throws(PackageError) in try Self.section(Array(Self.secure.prefix(count))) } == .badInitPacket
            )
        }
    }

    @Test("no change of one byte results in a packet with the same signed bytes and another meaning")
    func changes() throws {
        let original = try Self.section(Self.secure)
        for index in Self.secure.indices {
            for bit in 0..<8 {
                var bytes = Self.secure
                bytes[index] ^= 1 << bit
                guard let changed = try? Self.section(bytes), changed.signedBytes == original.signedBytes else {
                    continue
                }
                #expect(changed.digest == original.digest && changed.hardware == original.hardware)
                #expect(changed.signature != original.signature, "offset \(index)")
            }
        }
    }

    /// Encodes a message of fields with bytes.
    private static func message(_ fields: [(UInt8, [UInt8])]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (number, value) in fields {
            bytes.append(number << 3 | 2)
            bytes.append(UInt8(value.count))
            bytes += value
        }
        return bytes
    }

    private static func packet(_ parts: [UInt8]...) -> [UInt8] {
        let start: [UInt8] = [0x08, 0x01]
        return message([(1, start + message([(2, Array(parts.joined()))]))])
    }

    private static let hash: [UInt8] = [0x42, 0x24, 0x08, 0x03, 0x12, 0x20] + [UInt8](repeating: 7, count: 32)
    private static let size: [UInt8] = [0x38, 0x84, 0x04]

    static let malformed: [(String, [UInt8])] = [
        ("no command", []), ("two commands", packet(size, hash) + message([(2, packet(size, hash))])),
        ("a field twice", packet(size, size, hash)), ("no hash", packet(size)),
        ("an unknown field of the packet", packet(size, hash) + [0x18, 0x01]),
        ("the field 0", packet(size, hash, [0x00, 0x01])), ("a group", packet(size, hash, [0x5B])),
        ("a number with unnecessary zero bits", packet([0x38, 0x84, 0x84, 0x00], hash)),
        ("a number above 32 bits", packet([0x38, 0x84, 0x80, 0x80, 0x80, 0x10], hash)),
        ("a number above 64 bits", packet([0x38], [UInt8](repeating: 0xFF, count: 10), [0x01], hash)),
        ("a number in place of bytes", packet(size, [0x40, 0x01])), ("an unknown type", packet(size, hash, [0x20, 5])),
        ("a debug flag of 2", packet(size, hash, [0x48, 0x02])),
        ("a hash of another type", packet(size, [0x42, 0x24, 0x08, 0x02, 0x12, 0x20], Array(hash.suffix(32)))),
        ("a hash of 31 bytes", packet(size, [0x42, 0x23, 0x08, 0x03, 0x12, 0x1F], Array(hash.suffix(31)))),
        ("an unknown boot validation", packet(size, hash, [0x52, 0x04, 0x08, 0x04, 0x12, 0x00])),
        ("the reset command", message([(1, [0x08, 0x00, 0x1A, 0x02, 0x08, 0x01])])),
    ]

    @Test("a malformed secure init packet is refused", arguments: malformed)
    func malformedPackets(what: String, bytes: [UInt8]) {
        #expect(code { () throws(PackageError) in try Self.section(bytes) } == .badInitPacket, "\(what)")
    }

    @Test("an init command can have fields of a vendor, which are reported")
    func vendorFields() throws {
        let fields: [UInt8] = [0x58, 0x01, 0x65, 1, 2, 3, 4, 0x69, 1, 2, 3, 4, 5, 6, 7, 8]
        guard case .secure(let packet) = try Self.section(Self.packet(Self.size, Self.hash, fields)).initPacket else {
            Issue.record("not a secure init packet")
            return
        }
        #expect(packet.unknownFields == [11, 12, 13] && packet.firmwareVersion == nil && packet.signature == nil)
    }

    @Test("a signature of another algorithm is not an ECDSA signature, and one of 63 bytes is malformed")
    func signatures() throws {
        let start: [UInt8] = [0x08, 0x01]
        let command = start + Self.message([(2, Self.size + Self.hash)])
        func signed(_ type: UInt8, _ count: Int) -> [UInt8] {
            var fields = Self.message([(1, command)])
            fields += [0x10, type]
            fields += Self.message([(3, [UInt8](repeating: 1, count: count))])
            return Self.message([(2, fields)])
        }
        #expect(try Self.section(signed(1, 64)).signature == .unsupported(1))
        #expect(try Self.section(signed(0, 64)).signature == .ecdsaP256([UInt8](repeating: 1, count: 64)))
        #expect(code { () throws(PackageError) in try Self.section(signed(0, 63)) } == .badInitPacket)
    }

    @Test("an init packet for another part or another size is refused")
    func mismatches() {
        for part in NordicSection.Part.allCases where part != .application {
            #expect(code { () throws(PackageError) in try Self.section(Self.secure, part) } == .fileMismatch)
        }
        for image in [[], Self.image.dropLast(), Self.image + [0]] as [[UInt8]] {
            #expect(
                code { () throws(PackageError) in try Self.section(Self.secure, .application, image) } == .fileMismatch)
        }
        // The sum is right, but the application's size is in the field of the bootloader.
        let wrong = Self.packet([0x30, 0x84, 0x04], Self.hash)
        // 256 bytes of an application, and 260 bytes of a bootloader.
        let mixed = Self.packet([0x30, 0x84, 0x02, 0x38, 0x80, 0x02], Self.hash)
        #expect(code { () throws(PackageError) in try Self.section(mixed) } == .fileMismatch)
        #expect(code { () throws(PackageError) in try Self.section(wrong) } == .fileMismatch)
    }

    @Test("the sizes of SoftDevice and bootloader must have the sum of the image, and be those of the manifest")
    func bothSizes() throws {
        let packet = Self.packet([0x20, 0x03, 0x28, 0x84, 0x02, 0x30, 0x80, 0x02], Self.hash)
        let section = try Self.section(packet, .softDeviceBootloader)
        #expect(section.bothSizes.map { [$0.softDevice, $0.bootloader] } == [260, 256])
        #expect(throws: Never.self) { try Self.section(packet, .softDeviceBootloader, sizes: (260, 256)) }
        for sizes in [(260, 255), (259, nil), (nil, 257)] as [(UInt32?, UInt32?)] {
            #expect(
                code { () throws(PackageError) in try Self.section(packet, .softDeviceBootloader, sizes: sizes) }
                    == .fileMismatch)
        }
        let alone = Self.packet([0x20, 0x03, 0x28, 0x84, 0x04], Self.hash)
        #expect(code { () throws(PackageError) in try Self.section(alone, .softDeviceBootloader) } == .fileMismatch)
    }

    // MARK: Legacy DFU

    private static let start: [UInt8] = [0x52, 0, 0x68, 0xCE, 7, 0, 0, 0, 1, 0, 0xB6, 0]

    @Test("the fields of a legacy init packet follow each other, and its length selects CRC-16, digest or signature")
    func legacyFields() throws {
        let digest = Hex.decode(Self.digest) ?? []
        let length: [UInt8] = [4, 2, 0, 0]
        let signature: [UInt8] = (0..<64).map { UInt8($0) }
        func rest(_ parts: [UInt8]...) -> [UInt8] { Array(parts.joined()) }
        let kinds: [(rest: [UInt8], checksum: UInt16?, isSigned: Bool)] = [
            ([0xA6, 0xA8], 0xA8A6, false), ([0, 0, 0, 0, 0xA6, 0xA8], 0xA8A6, false),
            (rest([1, 0, 0, 0], length, digest), nil, false),
            (rest([2, 0, 0, 0], length, digest, signature), nil, true),
        ]
        for kind in kinds {
            let section = try Self.section(Self.start + kind.rest, as: .legacy)
            guard case .legacy(let packet) = section.initPacket else {
                Issue.record("not a legacy init packet")
                return
            }
            #expect(packet.deviceType == 0x52 && packet.deviceRevision == 52840 && packet.applicationVersion == 7)
            #expect(packet.softDevices == [0xB6] && section.checksum == kind.checksum && section.hardware == 52840)
            #expect(section.digest?.description == (kind.checksum == nil ? Self.digest : nil))
            #expect(section.signature == (kind.isSigned ? .ecdsaP256(signature) : nil))
            if kind.isSigned { #expect(section.signedBytes == Self.start + kind.rest.dropLast(64)) }
        }
    }

    @Test("a malformed legacy init packet is refused")
    func malformedLegacy() {
        let ones = [UInt8](repeating: 1, count: 64)
        func digest(_ kind: UInt8, _ count: Int) -> [UInt8] {
            let start: [UInt8] = [kind, 0, 0, 0, 4, 2, 0, 0]
            return start + ones.prefix(count)
        }
        let rests: [[UInt8]] = [
            [], [1], [0, 0, 1], [1, 0, 0, 0, 0xA6, 0xA8], digest(0, 32), digest(2, 32), digest(1, 33), digest(1, 31),
            digest(1, 64) + ones.prefix(32),
        ]
        for rest in rests {
            #expect(
                code { () throws(PackageError) in try Self.section(Self.start + rest, as: .legacy) } == .badInitPacket,
                "\(rest)")
        }
        // More SoftDevices than bytes.
        let many: [UInt8] = [0x52, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2, 3, 4]
        #expect(code { () throws(PackageError) in try Self.section(many, as: .legacy) } == .badInitPacket)
        let long = [UInt8](repeating: 0, count: 4097)
        #expect(code { () throws(PackageError) in try Self.section(long, as: .legacy) } == .badInitPacket)
    }

    @Test("the sizes of a legacy package must be those of its image")
    func legacySizes() throws {
        let length: [UInt8] = [1, 0, 0, 0, 5, 2, 0, 0]
        let digest = length + [UInt8](repeating: 1, count: 32)
        #expect(code { () throws(PackageError) in try Self.section(Self.start + digest, as: .legacy) } == .fileMismatch)
        let checksum: [UInt8] = [0xA6, 0xA8]
        let packet = Self.start + checksum
        let both = try Self.section(packet, .softDeviceBootloader, as: .legacy, sizes: (260, 256))
        #expect(both.bothSizes.map { [$0.softDevice, $0.bootloader] } == [260, 256])
        for sizes in [(260, 255), (516, 0), (0, 516), (260, nil), (nil, nil), (UInt32.max, 517)] as [(UInt32?, UInt32?)]
        {
            #expect(
                code { () throws(PackageError) in
                    try Self.section(packet, .softDeviceBootloader, as: .legacy, sizes: sizes)
                } == .fileMismatch)
        }
    }
}
