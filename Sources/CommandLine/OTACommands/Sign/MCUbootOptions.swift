import ArgumentParser
import OTAFirmware
import OTASigning

/// The options for an MCUboot image. They have the same names as the options of imgtool, MCUboot's signing tool.
struct MCUbootOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The header's size, 32 to 65535 bytes (example: 0x200). Required with --as mcuboot.", valueName: "bytes"))
    var headerSize: String?

    @Flag(
        help: ArgumentHelp(
            "Insert the header before the input.",
            discussion: "Default: the header replaces the first --header-size bytes of the input, which must be 0."))
    var padHeader = false

    @Option(
        help: ArgumentHelp(
            "Refuse an image that does not fit into a slot of this size, at most 0x10000000 bytes (example: 0x64000).",
            discussion:
                "The trailer, which is MCUboot's data at the end of the slot, must fit into the slot together with the image. "
                + "Default: do not check the size.",
            valueName: "bytes"))
    var slotSize: String?

    @Option(
        help: ArgumentHelp(
            "The write size of the flash: 1, 2, 4, 8, 16 or 32 bytes; default: 1.",
            discussion: "The write size affects the size of the trailer.", valueName: "bytes"))
    var align: Int?

    @Option(
        help: ArgumentHelp(
            "The maximum number of sectors in a slot, 1 to 65535; default: 128.",
            discussion: "This number affects the size of the trailer.", valueName: "n"),
        transform: WholeNumber.in(1...UInt16.max))
    var maxSectors: UInt16?

    @Option(help: ArgumentHelp("The value of erased flash: 0 or 0xff; default: 0xff.", valueName: "byte"))
    var erasedVal: String?

    @Option(
        help: ArgumentHelp(
            "The security counter, 0 to 4294967295; auto: from the version. Default: none.",
            discussion: "The bootloader refuses an image with a lower counter than the running image.", valueName: "n"))
    var securityCounter: String?

    @Option(
        help: ArgumentHelp(
            "The lowest versions of the device's other images (example: '(1,1.2.0),(2,1.0.0+3)').",
            discussion: "Each pair has the number of an image and a version. Default: none.", valueName: "list"))
    var dependencies: String?

    @Flag(
        help: ArgumentHelp(
            "Fill the output to --slot-size and write the trailer, for a flash programmer.",
            discussion: "Requires --slot-size. push does not send these bytes."))
    var pad = false

    @Flag(help: "Do the same as --pad, and mark the image as confirmed in the trailer.")
    var confirm = false

    @Flag(
        help: ArgumentHelp(
            "Sign the image bytes instead of their digest; only with an Ed25519 key.",
            discussion: "The image still contains its SHA-512 digest. The bootloader must be built for pure signatures."
        ))
    var pure = false

    @Option(
        help: ArgumentHelp(
            "The digest in the image: 256; 512 (only Ed25519); or auto. Default: auto.",
            discussion: "auto is 512 with --pure, otherwise 256. --pure together with --sha 256 is an error (exit 64).",
            valueName: "bits"))
    var sha: String?

    /// True if `--security-counter auto` was given: the security counter is then derived from the version.
    var derivesSecurityCounter: Bool { securityCounter?.lowercased() == "auto" }

    /// Checks that the user gave none of these options.
    ///
    /// - Parameter reason: the end of the error message, such as `it requires --as mcuboot`.
    /// - Throws: a usage failure that names the first given option.
    func refuse(_ reason: String) throws(Failure) {
        let given = [
            ("--header-size", headerSize != nil), ("--pad-header", padHeader), ("--slot-size", slotSize != nil),
            ("--align", align != nil), ("--max-sectors", maxSectors != nil), ("--erased-val", erasedVal != nil),
            ("--security-counter", securityCounter != nil), ("--dependencies", dependencies != nil), ("--pad", pad),
            ("--confirm", confirm), ("--pure", pure), ("--sha", sha != nil),
        ]
        guard let (name, _) = given.first(where: \.1) else { return }
        let instead = name == "--security-counter" ? "use --counter" : "use --as mcuboot, or remove \(name)"
        throw Failure.usage("\(name) is for MCUboot images: \(reason)", hint: instead)
    }

    /// Returns the signature scheme. It determines whether the key signs a digest of the image or the image itself.
    ///
    /// - Throws: a usage failure for a digest that otaflash does not support, or that `--pure` excludes.
    func scheme() throws(Failure) -> MCUbootSigner.Scheme {
        switch (sha, pure) {
        case (nil, true), ("auto", true), ("512", true): return .pure
        case (nil, false), ("auto", false), ("256", false): return .digest
        case ("512", false): return .sha512
        case ("256", true):
            throw Failure.usage(
                "--pure requires a SHA-512: --sha 256 cannot be used with it", hint: "remove --sha 256, or --pure")
        case ("384", _):
            throw Failure.usage(
                "--sha 384 is for ECDSA P-384, which otaflash does not support",
                hint: "use --sha 256 with another key, or sign with imgtool")
        case (let value?, _):
            throw Failure.usage("'\(value)' is not a valid value for --sha", hint: "give auto, 256 or 512")
        }
    }

    /// Returns the layout of the image.
    ///
    /// - Throws: a usage failure for a missing or invalid value.
    func layout(version: String?) throws(Failure) -> MCUbootLayout {
        guard let version else {
            throw Failure.usage(
                "--version is missing: an MCUboot image requires it", hint: "add --version 1.4.0, for example")
        }
        guard let headerSize else {
            throw Failure.usage(
                "--header-size is missing: an MCUboot image requires it",
                hint: "add --header-size 0x200 for most Zephyr builds (value of CONFIG_ROM_START_OFFSET)")
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
                throw Failure.usage("'\(align)' is not a valid value for --align", hint: "give 1, 2, 4, 8, 16 or 32")
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
                "\(confirm ? "--confirm" : "--pad") requires --slot-size",
                hint: "add --slot-size 0x64000, for example")
        }
        return confirm ? .confirmedTrailer : .trailer
    }
}

extension MCUbootLayout.Dependency {
    /// Parses a list such as `(1, 1.2.0), (2, 1.0.0+3)`. Returns nil for any other text.
    fileprivate static func list(_ text: String) -> [Self]? {
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
