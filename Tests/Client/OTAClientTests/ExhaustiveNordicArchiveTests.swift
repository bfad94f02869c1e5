import OTAArchive
import OTAClient
import OTAFirmware
import OTASigning
import Testing

@Suite("Nordic DFU packages, cut and changed at every place") struct ExhaustiveNordicArchiveTests {
    @Test(
        "no change of one byte of a signed package is accepted with another image",
        arguments: ["secure", "legacy-signed"])
    func changes(name: String) throws {
        let file = try NordicArchiveTests.packageFile(name)
        let verifier = try NordicArchiveTests.verifier()
        let original = try #require(try NordicArchive.package(in: file)).sections[0]
        for index in file.indices {
            for change: UInt8 in [0x01, 0x80, 0xFF] {
                var bytes = file
                bytes[index] ^= change
                guard let package = try? NordicArchive.package(in: bytes),
                    let verified = try? verifier.verify(package).package
                else { continue }
                let section = verified.sections[0]
                #expect(section.image == original.image && section.signedBytes == original.signedBytes, "\(index)")
                #expect(section.part == original.part && section.name == original.name, "\(index)")
                #expect(verified.sections.count == 1 && section.bothSizes == nil, "\(index)")
            }
        }
    }

    @Test("a package that is cut at any place is refused", arguments: ["secure", "legacy"])
    func cuts(name: String) throws {
        let file = try NordicArchiveTests.packageFile(name)
        for count in file.indices {
            #expect(throws: ZipError.self) { try NordicArchive.package(in: Array(file.prefix(count))) }
        }
    }
}
