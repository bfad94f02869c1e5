import FoundationEssentials
import OTAFirmware
import OTATestSupport
import Testing

/// These tests compare the images in firmware-samples/ with the stored output of esptool and imgtool.
@Suite("Sample images") struct FirmwareSamplesTests {
    private func sample(_ name: String) throws -> Data {
        Data(try Repository.sample(name))
    }

    @Test(
        "the sample ESP-IDF images have the values that esptool prints",
        arguments: ["acme-thermostat-1.0.0", "acme-thermostat-1.1.0"])
    func imagesOfEsptool(name: String) throws {
        let said = String(decoding: try sample("expected/\(name).image-info.txt"), as: UTF8.self)
        let facts = said.split(separator: "\n").reduce(into: [:] as [Substring: String]) { facts, line in
            let parts = line.split(separator: ": ", maxSplits: 1)
            if parts.count == 2 { facts[parts[0]] = String(parts[1]) }
        }
        let description = try inspect(Array(try sample("\(name).bin")))
        #expect(description.notes.isEmpty)
        #expect(facts["Image size"] == "\(description.size) bytes")
        #expect(facts["App version"] == description.version?.text)
        #expect(facts["Project name"] == description.product?.text)
        guard case .espressif(let image) = description.details else { throw ExpectationFailed("not an ESP-IDF image") }
        #expect(facts["Chip ID"] == "\(image.chipID) (\(image.chip ?? ""))")
        #expect(facts["Segments"] == "\(image.segments.count)")
        #expect(facts["Flash size"] == image.flashSize)
        #expect(facts["Entry point"] == "0x" + String(image.entryPoint, radix: 16))
        #expect(facts["Validation hash"] == image.digest.map { "\($0) (valid)" })
        #expect(facts["ELF file SHA256"] == image.application?.elfDigest?.description)
        #expect(facts["ESP-IDF"] == image.application?.frameworkVersion)
        #expect(facts["Secure version"] == (image.application?.secureVersion).map(String.init))
    }

    /// The compared part of the output of `imgtool dumpinfo --format json`.
    private struct DumpInfo: Decodable {
        struct Header: Decodable {
            let hdr_size, img_size, flags: Int
            let version: String
        }
        struct TLV: Decodable, Equatable {
            let type: UInt16
            let type_name: String
            let data: String
        }
        struct Areas: Decodable {
            let tlvs_prot, tlvs: [TLV]
        }
        let header: Header
        let tlv_area: Areas
    }

    @Test(
        "the sample MCUboot images have the values that imgtool prints",
        arguments: ["acme-beacon-1.0.0", "acme-beacon-1.1.0"])
    func imagesOfImgtool(name: String) throws {
        let said = try JSONDecoder().decode(DumpInfo.self, from: try sample("expected/\(name).dumpinfo.json"))
        let description = try inspect(Array(try sample("\(name).mcuboot.bin")))
        #expect(description.notes.isEmpty)
        guard case .mcuboot(let image) = description.details else { throw ExpectationFailed("not an MCUboot image") }
        #expect(Int(image.headerSize) == said.header.hdr_size)
        #expect(Int(image.bodySize) == said.header.img_size)
        #expect(Int(image.flags) == said.header.flags)
        // imgtool also prints a build number of 0.
        #expect(said.header.version == image.version.description + "+0")
        func shown(_ tlv: MCUbootTLV) -> DumpInfo.TLV {
            DumpInfo.TLV(type: tlv.type, type_name: tlv.name ?? "", data: Hex.encode(tlv.value))
        }
        #expect(said.tlv_area.tlvs_prot == image.protectedTLVs.map(shown))
        #expect(said.tlv_area.tlvs == image.tlvs.map(shown))
        #expect(image.digest != nil)
    }

    @Test("the security counter of a sample MCUboot image is read")
    func theSecurityCounter() throws {
        guard case .mcuboot(let image) = try inspect(Array(try sample("acme-beacon-1.1.0.mcuboot.bin"))).details
        else { throw ExpectationFailed("not an MCUboot image") }
        #expect(image.securityCounter == 2)
    }

    /// objcopy created both files from the same ELF file.
    @Test("the sample Intel HEX text and the sample binary are the same image")
    func textAndBinaryAreTheSameImage() throws {
        let text = Array(try sample("acme-beacon-1.1.0.hex"))
        #expect(FirmwareFileKind.detect(prefix: text) == .hexText(.intelHex))
        #expect(try HexImage(parsing: text).bytes == Array(try sample("acme-beacon-1.1.0.bin")))
    }
}
