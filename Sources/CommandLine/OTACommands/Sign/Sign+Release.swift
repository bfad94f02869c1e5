import OTAClient
import OTAFirmware
import OTASigning

extension Sign {
    /// Returns the values of the manifest for an input. A new bundle has the security counter of `--previous` if `--counter` is omitted.
    ///
    /// - Parameter keys: the signing keys; nil if they are on another machine. One of them must have signed the bundle of `--previous`: a
    ///   forged bundle could have the highest counter, and a device that confirms this counter refuses all later releases.
    func release(for input: InputFile, after earlier: EarlierReleases, signedBy keys: [any Signer]?) throws -> Release {
        var release = try release()
        let kind = try FirmwareFileKind.detect(prefix: input.prefix(FirmwareFileKind.prefixLength))
        if kind == .zip, !raw, try isNordicPackage(input, for: release.hardware) { release.format = .nordicDFU }
        guard let previous = earlier.previous, counter == nil, kind != .bundle else { return release }
        if let keys, (try? Verifier(trust: TrustStore(keys.map(\.publicKey))).verify(previous)) == nil {
            throw Failure.usage(
                "no key of --key has signed the bundle of --previous, so its security counter is not taken",
                hint: "verify the bundle (otaflash verify --help), and give its counter: --counter N")
        }
        release.securityCounter = previous.envelope.manifest.securityCounter
        return release
    }

    /// Returns whether a zip archive is a Nordic DFU package.
    ///
    /// - Parameter hardware: the hardware revisions of the new bundle; nil: any.
    /// - Throws: `digest-mismatch` if the digest of an image in the package is wrong; `wrong-hardware` if an image is for other hardware
    ///   than the bundle; the errors of `NordicArchive`.
    private func isNordicPackage(_ input: InputFile, for hardware: HardwareRevisions?) throws -> Bool {
        guard input.size <= FileReader.limit, let package = try NordicArchive.package(in: input.prefix(Int(input.size)))
        else { return false }
        try package.checkDigests()
        try package.checkHardware(of: hardware)
        return true
    }

    /// Returns the values of the manifest from the options.
    func release() throws(Failure) -> Release {
        if let minimumBattery, minimumBattery > 100 {
            throw Failure.usage(
                "'\(minimumBattery)' for --minimum-battery is too large: expected 0 to 100 (per cent)",
                hint: "use --minimum-battery 20, for example")
        }
        return Release(
            product: try Self.read(product, "product", ProductName.rule) { ProductName($0) },
            version: try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) },
            hardware: try Self.read(hardware, "hardware", HardwareRevisions.rule) { HardwareRevisions($0) },
            securityCounter: counter, minimumBattery: minimumBattery,
            source: try Self.read(source, "source", "1 to 127 bytes without control characters") { text in
                (1...127).contains(text.utf8.count) && text.isPrintable ? text : nil
            },
            requires: try Self.read(requires, "requires", RequiredVersion.rule) { RequiredVersion($0) },
            format: raw ? .raw : nil)
    }
}
