import OTAArchive
import OTAClient
import OTAFirmware
import OTASigning
import Testing

/// `Tests/Support/nordic-packages/hostile/make.py` writes the packages. Python's zipfile, java.util.zip or unzip reads other files from most
/// of them than a reader of the directory.
@Suite("Nordic DFU packages that other programs read differently") struct HostileNordicArchiveTests {
    private static func file(_ name: String) throws -> [UInt8] {
        try NordicArchiveTests.packageFile("hostile/\(name)")
    }

    private static func parsed(_ name: String) throws -> NordicPackage {
        try #require(try NordicArchive.package(in: file(name)))
    }

    static let archives: [(name: String, code: ZipError.Code)] = [
        ("hidden", .malformed), ("zip64-in-comment", .unsupported), ("zip64-in-extra", .unsupported),
        ("end-in-comment", .malformed), ("second-name", .unsupported),
    ]

    @Test("an archive with hidden entries, a second directory or a second name is refused", arguments: archives)
    func archive(name: String, code: ZipError.Code) throws {
        let file = try Self.file(name)
        #expect(throws: ZipError(code, "")) { try NordicArchive.package(in: file) }
        #expect(throws: ZipError(code, "")) { try UpdateFile(parsing: file) }
    }

    static let packages: [(name: String, code: PackageError.Code)] = [
        ("dots", .unsafeName), ("drive", .unsafeName), ("dot-at-end", .unsafeName), ("listed-case", .unsafeName),
        ("case", .badManifest), ("extra-file", .badManifest), ("both-kinds", .badManifest), ("twice", .badManifest),
        ("sizes-legacy", .badManifest), ("sizes-secure", .badManifest), ("sizes-numbers", .badManifest),
    ]

    @Test(
        "a package with an unlisted file, an unsafe name, a manifest of two kinds or ambiguous sizes is refused",
        arguments: packages)
    func package(name: String, code: PackageError.Code) throws {
        let file = try Self.file(name)
        #expect(throws: PackageError(code, "")) { try NordicArchive.package(in: file) }
        // The other parser of packages must not accept the file instead.
        #expect(throws: PackageError(code, "")) { try UpdateFile(parsing: file) }
    }

    @Test("the digest and the signature of the second image are checked, too")
    func secondImage() throws {
        let verifier = try NordicArchiveTests.verifier()
        let damaged = try Self.parsed("second-image")
        #expect(throws: VerificationError(.digestMismatch, "")) { try damaged.checkDigests() }
        #expect(throws: VerificationError(.digestMismatch, "")) { try verifier.verify(damaged) }
        let digests = verifier.report(on: damaged).map(\.digestHolds)
        #expect(digests == [true, false])
        let unsigned = try Self.parsed("second-unsigned")
        #expect(throws: Never.self) { try unsigned.checkDigests() }
        #expect(throws: VerificationError(.notSigned, "")) { try verifier.verify(unsigned) }
        let signatures = verifier.report(on: unsigned).map { $0.keyID != nil }
        #expect(signatures == [true, false])
    }

    @Test("a signature of another algorithm than ECDSA is refused, although a trusted key has signed the same bytes")
    func otherAlgorithm() throws {
        let package = try Self.parsed("ed25519")
        let verifier = try NordicArchiveTests.verifier()
        #expect(throws: VerificationError(.unsupportedSignature, "")) { try verifier.verify(package) }
    }

    @Test("the hardware of each image in a bundle must be among the hardware revisions of the bundle")
    func hardware() throws {
        let secure = try #require(try NordicArchive.package(in: NordicArchiveTests.packageFile("secure")))
        let included = try #require(HardwareRevisions("3,50..60"))
        let excluded = try #require(HardwareRevisions("1..51,53"))
        #expect(throws: Never.self) { try secure.checkHardware(of: nil) }
        #expect(throws: Never.self) { try secure.checkHardware(of: included, required: 52) }
        #expect(throws: VerificationError(.wrongHardware, "")) { try secure.checkHardware(of: excluded) }
        #expect(throws: VerificationError(.wrongHardware, "")) { try secure.checkHardware(of: nil, required: 51) }
        // This legacy package is for any revision.
        let anyRevision = try #require(try NordicArchive.package(in: NordicArchiveTests.packageFile("legacy-both")))
        #expect(anyRevision.sections[0].hardware == nil)
        #expect(throws: Never.self) { try anyRevision.checkHardware(of: excluded, required: 1) }
    }
}
