import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `sign`, which signs an image or a bundle.
struct Sign: Command {
    static let name = "sign"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Sign an image: create a bundle or an MCUboot image.",
        discussion: """
            Example: otaflash sign app.bin --key release.pem --product demo --version 1.1.0
                     otaflash sign zephyr.bin --as mcuboot --key release.pem \\
                       --version 1.4.0 --header-size 0x200

            Bundle (default): a file with the image, 1 to 8 signatures, and a manifest. The manifest has the values of --product, \
            --version, --hardware, --counter, --requires, --minimum-battery and --source. <image> is a raw binary, an ESP-IDF \
            application, an MCUboot image (each also as Intel HEX or S-records) or a Nordic DFU package. The key is an Ed25519 or ML-DSA key (ML-DSA: OpenSSL \
            3.5). --product and --version are required if <image> does not contain them. If <image> contains a product or version that differs from the option, sign fails (exit 65).

            Another signature: if <image> is a bundle, sign adds one signature for each key. Give -o FILE to write a new file, or \
            --force to replace the bundle.

            MCUboot image (--as mcuboot): <image> is a raw binary, Intel HEX or S-records. The key is an Ed25519, ECDSA P-256, RSA-2048 \
            or RSA-3072 key. --version and --header-size are required. With an Ed25519 key, the output is \
            identical to that of imgtool, MCUboot's own signing tool.

            Key on another machine: three steps are needed. For a new bundle:

              1. otaflash sign app.bin --to-sign app.tosign --product demo --version 1.1.0
              2. on the other machine:
                 openssl pkeyutl -sign -rawin -in app.tosign -inkey release.pem \\
                   -out app.sig
              3. otaflash sign app.bin --manifest app.tosign --signature app.sig \\
                   --public-key release.pub.pem

            An ML-DSA key signs with OpenSSL 3.5; in step 2, add -pkeyopt context-string:otaflash-bundle.

            Another signature in a bundle: use the same three steps, with the bundle as <image>. In step 3, replace --manifest \
            by -o FILE or --force.

            MCUboot image: in step 3, repeat the options of step 1 without --to-sign, and omit --manifest. app.tosign is the digest of the \
            image (with --pure, the bytes of the image). In step 2, an ECDSA or RSA key needs -pkeyopt digest:sha256 in place of \
            -rawin; an RSA key also needs -pkeyopt rsa_padding_mode:pss -pkeyopt rsa_pss_saltlen:32.
            """)

    @Argument(
        help: "An image; or a bundle, to add a signature; or - for stdin, which requires -o.", completion: .file())
    var image: String

    @Option(
        help: ArgumentHelp(
            "The private key: \(KeyOptions.forms); repeatable for a bundle.",
            discussion:
                "FILE: a PEM file. env:NAME: PEM text in the environment variable NAME. pkcs11:URI: a key in a token (example: "
                + "'pkcs11:token=release;object=fw'). exec:PROGRAM: a program that reads the bytes from stdin and prints the "
                + "signature (docs/signing-keys.md). agent:ID: a key in an SSH agent; 'agent:' without an ID lists the IDs. "
                + "Required, unless --to-sign or --signature is given. A bundle can have 1 to 8 signatures: repeat --key for each. "
                + "An MCUboot image has one signature.",
            valueName: "key"),
        completion: .file())
    var key: [String] = []

    @Option(name: .customLong("as"), help: ArgumentHelp("The kind of the output file.", valueName: "kind"))
    var kind: SignedKind = .bundle

    @Option(
        help: "The product, as the device reports it (example: acme-lamp); default: from the image.")
    var product: String?

    @Option(
        help: "The version of the image (example: 1.4.0; with --as mcuboot, also 1.4.0+7); default: from the image.")
    var version: String?

    @Option(help: "The hardware revisions that may install the image (example: 1..3,7); default: any.")
    var hardware: String?

    @Option(
        help: ArgumentHelp(
            "The security counter, 0 to 4294967295; default: that of --previous, or else 0.",
            discussion: "A device with a higher counter refuses the bundle.", valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Option(
        help: ArgumentHelp(
            "The bundle of the previous release: refuse another product, and a version that is not higher.",
            discussion:
                "sign refuses another product, a version that is not newer, and a lower security counter. Without --counter, the "
                + "new bundle gets the security counter of this bundle. Default: no comparison.",
            valueName: "bundle"),
        completion: .file())
    var previous: String?

    @Option(
        help: ArgumentHelp(
            "The lowest version that may run on the device before the update (example: 1.2.0); default: any.",
            valueName: "version"))
    var requires: String?

    @Option(
        help: ArgumentHelp(
            "The lowest battery level, 0 to 100 %; default: 0.",
            discussion: "Below this level, the device refuses the bundle.", valueName: "percent"),
        transform: WholeNumber.in(0...100))
    var minimumBattery: UInt8?

    @Option(
        help: ArgumentHelp(
            "The commit or build of the image, at most 127 bytes (example: v1.4.0-3-g1a2b3c4).", valueName: "text"))
    var source: String?

    @Flag(
        help: ArgumentHelp(
            "Sign the bytes of the file without a check of its format.",
            discussion:
                "sign then does not detect the format of the image, does not convert Intel HEX or S-records, and does not refuse "
                + "a file such as text."))
    var raw = false

    @Option(
        name: [.short, .long],
        help: ArgumentHelp(
            "The output; - for stdout. Default: <image>.otaf; with --as mcuboot, app.signed.bin for app.bin.",
            discussion: "Default for a bundle: the bundle itself, which requires --force.", valueName: "file"),
        completion: .file())
    var output: String?

    @Flag(help: "Replace an existing output file.")
    var force = false

    @OptionGroup(title: "Options for a key on another machine") var detached: DetachedOptions
    @OptionGroup(title: "Options for --as mcuboot") var mcuboot: MCUbootOptions
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var pin: PINOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: image) }

    func validate() throws {
        try options.refuse("-o", at: output)
        try options.refuse("--to-sign", at: detached.toSign)
    }

    func answer(_ console: Console) throws -> SignAnswer {
        let answer = try signed(console)
        guard [output, detached.toSign].contains(StandardFile.name) else { return answer }
        answer.sentences.forEach { console.note($0) }
        return answer.withoutLines
    }

    private func signed(_ console: Console) throws -> SignAnswer {
        try detached.check(self)
        try checkStreams()
        switch kind {
        case .bundle:
            try mcuboot.refuse("it requires --as mcuboot")
            if let path = detached.toSign { return try manifest(to: path, console) }
            if detached.attaches { return try bundleWithDetachedSignatures(console) }
            if !raw, let manifest = try unsignedManifest() { return try signature(of: manifest, console) }
            return try bundle(signedWith: signers(console), console)
        case .mcuboot:
            try refuseBundleOptions()
            let layout = try mcuboot.layout(version: version)
            if let path = detached.toSign { return try bytesToSign(layout, to: path, console) }
            return try mcubootImage(layout, mcuboot.scheme(), console)
        }
    }

    private func bundle(signedWith keys: [any Signer], _ console: Console) throws -> SignAnswer {
        let (input, created) = (try input(), try CreationTime.now())
        let earlier = try EarlierReleases(previous: previous, output: target)
        let release = try release(for: input, after: earlier, signedBy: keys)
        if earlier.counter != nil {
            let new = try BundleSigner.manifest(for: input, named: FilePath(image), as: release, created: created)
            try earlier.check(new, choosesCounter: release != Release())
        }
        let file = try BundleSigner(keys: keys).sign(
            input, named: FilePath(image), as: release, created: created, to: outputFile(at: target),
            note: console.note)
        let counter = file.envelope.manifest.securityCounter
        warn(ofCounter: counter, after: earlier.counter, in: ("bundle", "--counter"), console)
        return SignAnswer(file)
    }

    private static let largestUsualCounterStep: UInt32 = 1000

    /// Warns about a large increase of the security counter, because it cannot be undone: a device that has confirmed the new file refuses
    /// every lower counter.
    ///
    /// - Parameters:
    ///   - counter: the counter of the new file.
    ///   - known: the counter of the file that was at the output path before; nil if there was no such file, or if it has no counter. For
    ///     nil, the function compares `counter` with 0.
    func warn(
        ofCounter counter: UInt32, after known: UInt32?, in file: (kind: String, option: String), _ console: Console
    ) {
        let before = known ?? 0
        guard counter > before, counter - before > Self.largestUsualCounterStep else { return }
        let origin = known == nil ? "no earlier \(file.kind) at the output path" : "that of the earlier \(file.kind)"
        console.warn(
            "the security counter \(counter) is \(counter - before) higher than \(before) (\(origin)). A device that "
                + "confirms this \(file.kind) refuses all lower counters permanently.",
            hint: "increase the counter by 1 for each release, or sign again with a lower \(file.option)")
    }

    /// Returns the security counter of an MCUboot image. Returns nil if the file does not exist, is not an MCUboot image, or does not have
    /// a counter.
    private static func counter(ofMCUbootImageIn path: String) -> UInt32? {
        guard let bytes = try? FileReader.contents(of: path) else { return nil }
        return (try? MCUbootFile(parsing: bytes))?.image.securityCounter
    }

    private func mcubootImage(
        _ layout: MCUbootLayout, _ scheme: MCUbootSigner.Scheme, _ console: Console
    ) throws -> SignAnswer {
        let key = try imageSigner(console)
        Self.warn(ofKey: key.publicKey.id, console)
        let path = mcubootTarget
        guard !Self.hexSuffixes.contains(where: path.hasSuffix) else {
            throw Failure.usage(
                "the output is a binary, but \(path) has the suffix of a text format",
                hint:
                    "use -o app.signed.bin, then convert it: objcopy -I binary -O ihex app.signed.bin app.signed.hex"
            )
        }
        let known = path == StandardFile.name ? nil : Self.counter(ofMCUbootImageIn: path)
        let file = try MCUbootSigner(key: key, scheme: scheme)
            .sign(input(), as: layout, isRaw: raw, to: outputFile(at: path), note: console.note)
        // A counter that is derived from the version needs no warning: it increases with the version, and its large steps are intended.
        if !mcuboot.derivesSecurityCounter, let counter = layout.securityCounter {
            warn(ofCounter: counter, after: known, in: ("image", "--security-counter"), console)
        }
        let report = Verifier(trust: try TrustStore(imageKeys: [key.publicKey])).report(on: file)
        return SignAnswer(
            ImageSummary(file, report), signer: key.publicKey.id,
            output: path == StandardFile.name ? StandardFile.outputTitle : path)
    }

    private func imageSigner(_ console: Console) throws -> any ImageSigner {
        if let signer = try detached.imageSigner() { return signer }
        guard key.count <= 1 else {
            throw Failure.usage("an MCUboot image has exactly one signature", hint: "give --key once")
        }
        guard let name = key.first else {
            throw SigningError.refused(.keyRequired, context: "no private key was given")
        }
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        return try keys.imageKey(at: name)
    }

    func signers(_ console: Console) throws -> [any Signer] {
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        let signers = try key.map { try keys.key(at: $0) }
        for signer in signers { Self.warn(ofKey: signer.publicKey.id, console) }
        return signers
    }

    /// Checks the use of standard input and standard output (`-`). Each stream can have only one use. An image from standard input requires
    /// `-o` or `--to-sign`, because the default name of the output comes from the file name of the image.
    private func checkStreams() throws(Failure) {
        if image == StandardFile.name, output == nil, detached.toSign == nil {
            throw Failure.usage(
                "the image comes from standard input, so the name of the output is unknown",
                hint: "add -o FILE, or -o - for standard output")
        }
        if image == StandardFile.name, passphrase.passphraseFd == 0 {
            throw Failure.usage(
                "standard input cannot be both the image and the passphrase", hint: "use --passphrase-fd 3 3< FILE")
        }
        if image == StandardFile.name, pin.pinFd == 0 {
            throw Failure.usage("standard input cannot be both the image and the PIN", hint: "use --pin-fd 3 3< FILE")
        }
        let (option, written) = detached.toSign.map { ("--to-sign", $0) } ?? ("-o", output)
        if written == StandardFile.name, options.format == .json {
            throw Failure.usage(
                "standard output cannot be both the output file and the JSON result",
                hint: "use \(option) FILE with --format json")
        }
        if written == StandardFile.name { _ = try StandardFile.output() }
    }

    func input() throws -> InputFile {
        image == StandardFile.name
            ? try InputFile(copying: StandardFile.input(), as: FilePath(StandardFile.inputTitle))
            : try InputFile(FilePath(image))
    }

    func outputFile(at path: String) throws -> OutputFile {
        path == StandardFile.name
            ? try OutputFile(to: StandardFile.output(), as: FilePath(StandardFile.outputTitle))
            : try OutputFile(FilePath(path), replaces: replaces(path))
    }

    /// Warns if everybody knows the private key: the demo key and the sample keys of MCUboot are published.
    static func warn(ofKey id: KeyID, _ console: Console) {
        if id == DemoKey.id {
            console.warn("this is the demo key: its private key is public, so its signature proves nothing")
        } else if MCUbootSampleKey.contains(id) {
            console.warn(
                "this is a sample key of MCUboot: its private key is public, so its signature proves nothing",
                hint: "create your own key (otaflash keygen NAME, imgtool keygen), and build it into the bootloader")
        }
    }

    /// Returns true if `--force` allows the output to replace an existing file.
    ///
    /// - Throws: `output-exists` if the existing file is an input of the command, or contains a key or a certificate. Without this check,
    ///   the user could lose the only copy of a build or of a key. `sign` can replace an input bundle, because the new bundle has the same
    ///   contents and more signatures.
    private func replaces(_ path: String) throws(Failure) -> Bool {
        guard force, let beginning = FileReader.beginning(of: path) else { return force }
        let isBundle = FirmwareFileKind.detect(prefix: beginning) == .bundle
        guard isBundle && detached.toSign == nil || !FileReader.isSameFile(path, image) else {
            throw Failure(
                "output-exists", .cannotCreate, "\(path) is the image itself, and sign does not replace it",
                hint: "use another name for the output: \(detached.toSign == nil ? "-o" : "--to-sign") FILE")
        }
        try detached.refuseToReplace(path)
        guard !String(decoding: beginning, as: UTF8.self).contains("-----BEGIN") else {
            throw Failure(
                "output-exists", .cannotCreate, "\(path) is a key or a certificate, and sign does not replace it",
                hint: "use another name for the output: \(detached.toSign == nil ? "-o" : "--to-sign") FILE")
        }
        return true
    }

    var target: String { output ?? (image.hasSuffix(".otaf") ? image : image + ".otaf") }

    private var mcubootTarget: String {
        if let output { return output }
        let suffix = ([".bin"] + Self.hexSuffixes).first { image.hasSuffix($0) } ?? ""
        return image.dropLast(suffix.count) + ".signed.bin"
    }

    /// The usual suffixes of Intel HEX and S-records.
    private static let hexSuffixes = [".hex", ".s19", ".s28", ".s37", ".srec", ".mot"]

    /// The given options that apply only to bundles. The list does not contain `--version`, which also applies to MCUboot images.
    var bundleOptions: [String] {
        let given = [
            ("--product", product != nil), ("--hardware", hardware != nil), ("--counter", counter != nil),
            ("--requires", requires != nil), ("--minimum-battery", minimumBattery != nil), ("--source", source != nil),
        ]
        return given.filter(\.1).map(\.0)
    }

    /// Refuses the options that apply only to bundles.
    private func refuseBundleOptions() throws(Failure) {
        guard let name = (bundleOptions + (previous == nil ? [] : ["--previous"])).first else { return }
        let instead = name == "--counter" ? "use --security-counter" : "remove \(name), or remove --as mcuboot"
        throw Failure.usage("\(name) is for bundles: an MCUboot image has no such field", hint: instead)
    }
}

/// The output format of `sign`.
enum SignedKind: String, ExpressibleByArgument, CaseIterable {
    case bundle, mcuboot
}
