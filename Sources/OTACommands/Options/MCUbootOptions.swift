import ArgumentParser
import OTAFirmware

/// How a program becomes an MCUboot image: imgtool's options, with imgtool's names.
struct MCUbootOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Bytes in front of the program, such as 0x200; 32 at least.", valueName: "bytes"))
    var headerSize: String?

    @Flag(help: "Put the header in front; otherwise the program begins with zeros in its place.")
    var padHeader = false

    @Option(
        help: ArgumentHelp("Bytes of the slot, such as 0x64000: image and trailer have to fit.", valueName: "bytes"))
    var slotSize: String?

    @Option(help: ArgumentHelp("The unit in which the flash is written: 1, 2, 4, 8, 16 or 32.", valueName: "bytes"))
    var align: Int?

    @Option(help: ArgumentHelp("Sectors of the slot, at most. Otherwise 128.", valueName: "n"))
    var maxSectors: UInt16?

    @Option(help: ArgumentHelp("What erased flash reads as: 0 or 0xff. Otherwise 0xff.", valueName: "byte"))
    var erasedVal: String?

    @Option(
        help: ArgumentHelp(
            "What the bootloader's rollback protection compares; auto makes it of the version.", valueName: "n"))
    var securityCounter: String?

    @Option(help: ArgumentHelp("Other images it needs, such as '(1, 1.2.0), (2, 1.0.0+3)'.", valueName: "list"))
    var dependencies: String?

    @Flag(help: "Fill the slot, with the bootloader's trailer at its end: for a programmer, not for push.")
    var pad = false

    @Flag(help: "The same, and mark the image as confirmed.")
    var confirm = false

    @Flag(help: "Sign the image itself and not its digest, for a bootloader that is built so.")
    var pure = false

    /// The security counter is made of the version.
    var derivesSecurityCounter: Bool { securityCounter?.lowercased() == "auto" }

    /// - Throws: a usage failure if one of them was given.
    func refuse(_ reason: String) throws(Failure) {
        let given = [
            ("--header-size", headerSize != nil), ("--pad-header", padHeader), ("--slot-size", slotSize != nil),
            ("--align", align != nil), ("--max-sectors", maxSectors != nil), ("--erased-val", erasedVal != nil),
            ("--security-counter", securityCounter != nil), ("--dependencies", dependencies != nil), ("--pad", pad),
            ("--confirm", confirm), ("--pure", pure),
        ]
        guard let (name, _) = given.first(where: \.1) else { return }
        let instead = name == "--security-counter" ? "give --counter" : "give --as mcuboot, or leave it out"
        throw Failure.usage("\(name) is for an MCUboot image: \(reason)", hint: instead)
    }

    func layout(version: String?) throws(Failure) -> MCUbootLayout {
        guard let version else {
            throw Failure.usage("an MCUboot image has a version", hint: "give --version, such as --version 1.4.0")
        }
        guard let headerSize else {
            throw Failure.usage(
                "how long the header is was not said",
                hint: "give --header-size: 0x200 in most builds of Zephyr (CONFIG_ROM_START_OFFSET)")
        }
        let parsed: MCUbootImage.Version = try Self.read(version, "version", MCUbootImage.Version.rule) { .init($0) }
        var layout = MCUbootLayout(
            version: parsed,
            headerSize: try Self.read(headerSize, "header-size", "32 to 65535 bytes, such as 0x200") {
                Numeral.value($0, in: UInt16(32)...UInt16.max)
            })
        layout.padsHeader = padHeader
        layout.slotSize = try Self.read(slotSize, "slot-size", "1 to 0x10000000 bytes, such as 0x64000") {
            Numeral.value($0, in: 1...(256 << 20))
        }
        if let align {
            guard MCUbootLayout.alignments.contains(align) else {
                throw Failure.usage("'\(align)' is not a value for --align", hint: "give 1, 2, 4, 8, 16 or 32")
            }
            layout.alignment = align
        }
        if let maxSectors { layout.maximumSectors = maxSectors }
        if let erasedVal {
            layout.erasedValue = try Self.read(erasedVal, "erased-val", "0 or 0xff") { ["0": 0, "0xff": 0xFF][$0] }
        }
        layout.securityCounter = try Self.read(securityCounter, "security-counter", "0 to 4294967295, or auto") {
            derivesSecurityCounter
                ? MCUbootLayout.securityCounter(of: parsed) : Numeral.value($0, in: 0...UInt32.max)
        }
        layout.dependencies =
            try Self.read(dependencies, "dependencies", "a list such as '(1, 1.2.0), (2, 1.0.0+3)'") {
                MCUbootLayout.Dependency.list($0)
            } ?? []
        layout.filling = try filling(slotSize: layout.slotSize)
        return layout
    }

    private func filling(slotSize: UInt32?) throws(Failure) -> MCUbootLayout.Filling {
        guard pad || confirm else { return .none }
        guard slotSize != nil else {
            throw Failure.usage(
                "\(confirm ? "--confirm" : "--pad") fills a slot of unknown size",
                hint: "give --slot-size, such as 0x64000")
        }
        return confirm ? .confirmedTrailer : .trailer
    }
}

/// Numbers as imgtool takes them: decimal, or with 0x, 0o or 0b before the digits.
enum Numeral {
    /// Nil for what is none, or lies outside.
    static func value<Integer: FixedWidthInteger & UnsignedInteger>(
        _ text: String, in range: ClosedRange<Integer>
    ) -> Integer? {
        let radices = ["0x": 16, "0o": 8, "0b": 2]
        let radix = radices[text.prefix(2).lowercased()]
        let digits = radix == nil ? text[...] : text.dropFirst(2)
        // The standard initializer would also take a plus sign.
        guard digits.first != "+", let value = Integer(digits, radix: radix ?? 10), range.contains(value) else {
            return nil
        }
        return value
    }
}

extension MCUbootLayout.Dependency {
    /// `(1, 1.2.0), (2, 1.0.0+3)`; nil for what is no such list.
    static func list(_ text: String) -> [Self]? {
        var found: [Self] = []
        var rest = text.filter { $0 != " " }[...]
        while true {
            guard rest.first == "(", let end = rest.firstIndex(of: ")") else { return nil }
            let parts = rest[..<end].dropFirst().split(separator: ",", omittingEmptySubsequences: false)
            guard parts.count == 2, let image = Numeral.value(String(parts[0]), in: UInt8.min...UInt8.max),
                let version = MCUbootImage.Version(parts[1])
            else { return nil }
            found.append(Self(image: image, version: version))
            rest = rest[end...].dropFirst()
            if rest.isEmpty { return found }
            guard rest.first == "," else { return nil }
            rest = rest.dropFirst()
        }
    }
}
