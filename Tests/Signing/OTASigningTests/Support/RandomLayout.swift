import OTAFirmware
import OTASigning
import OTATestSupport
import OTAUpdate

/// A random binary and the parameters of its MCUboot image: for `MCUbootSigner`, and as options of imgtool.
struct RandomLayout {
    let program: [UInt8]
    let layout: MCUbootLayout
    let scheme: MCUbootSigner.Scheme
    let options: [String]

    init(_ random: inout SplitMix64, largest: Int = 6000) throws {
        func pick<Value>(_ values: [Value]) -> Value { values[Int(random.next() % UInt64(values.count))] }
        func chance(_ part: Int) -> Bool { random.next() % UInt64(part) == 0 }

        let parts = (
            random.next() % 256, random.next() % 256, random.next() % 65536, pick([0, 0, random.next() % (1 << 32)])
        )
        let version = "\(parts.0).\(parts.1).\(parts.2)" + (parts.3 == 0 ? "" : "+\(parts.3)")
        let headerSize = pick([32, 64, 0x200, 0x400] as [UInt16])
        var layout = MCUbootLayout(version: try mcubootVersion(version), headerSize: headerSize)
        var options = ["--version", version, "--header-size", "\(headerSize)"]

        layout.alignment = pick(MCUbootLayout.alignments)
        options += ["--align", "\(layout.alignment)"]
        layout.padsHeader = chance(2)
        if layout.padsHeader { options.append("--pad-header") }
        if chance(3) {
            layout.maximumSectors = pick([1, 64, 300])
            options += ["--max-sectors", "\(layout.maximumSectors)"]
        }
        if chance(3) {
            layout.erasedValue = 0
            options += ["--erased-val", "0"]
        }
        if chance(2) {
            let counter = UInt32(truncatingIfNeeded: random.next())
            layout.securityCounter = chance(2) ? MCUbootLayout.securityCounter(of: layout.version) : counter
            options += [
                "--security-counter", layout.securityCounter == counter ? "0x" + String(counter, radix: 16) : "auto",
            ]
        }
        if chance(3) {
            layout.dependencies = [
                .init(image: 1, version: try mcubootVersion("1.2.3+4")), .init(image: 7, version: layout.version),
            ]
            options += ["--dependencies", "(1, 1.2.3+4), (7, \(version))"]
        }
        layout.slotSize = 0x20000
        options += ["--slot-size", "0x20000"]
        layout.filling = pick([MCUbootLayout.Filling.none, .trailer, .confirmedTrailer])
        if layout.filling != .none { options.append(layout.filling == .trailer ? "--pad" : "--confirm") }
        scheme = chance(2) ? .pure : .digest
        if scheme == .pure { options.append("--pure") }

        let body = random.bytes(1 + Int(random.next() % UInt64(largest)))
        program = (layout.padsHeader ? [] : [UInt8](repeating: 0, count: Int(headerSize))) + body
        self.layout = layout
        self.options = options
    }
}

func mcubootVersion(_ text: String) throws -> MCUbootImage.Version {
    struct NoVersion: Error {}
    guard let version = MCUbootImage.Version(text) else { throw NoVersion() }
    return version
}
