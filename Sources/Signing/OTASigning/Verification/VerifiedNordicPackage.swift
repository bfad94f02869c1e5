public import OTAFirmware

/// A Nordic DFU package that a ``Verifier`` accepted. Only a ``Verifier`` can create a value of this type.
public struct VerifiedNordicPackage: Sendable {
    public let package: NordicPackage
    /// The IDs of the trusted keys that signed the init packets, one for each section.
    public let signers: [KeyID]

    fileprivate init(_ package: NordicPackage, _ signers: [KeyID]) {
        self.package = package
        self.signers = signers
    }
}

/// The results of the checks of one section of a Nordic DFU package.
public struct NordicReport: Sendable {
    /// Whether the CRC-16 or the SHA-256 in the init packet matches the image.
    public let digestHolds: Bool
    /// True if the scope of the key `keyID` excludes Nordic DFU packages.
    public let isOutOfScope: Bool
    fileprivate let signer: Result<KeyID, VerificationError>

    /// The ID of the trusted key that signed the init packet. The value is nil if no trusted key signed it.
    public var keyID: KeyID? { try? signer.get() }
}

extension NordicSection {
    /// Whether the SHA-256 or the CRC-16 in the init packet matches the image. The property computes the digest of the image.
    fileprivate var digestHolds: Bool {
        if let digest { return SHA256.digest(of: image) == digest }
        return CRC16.checksum(image, after: 0xFFFF) == checksum
    }

    fileprivate var digestMismatch: VerificationError {
        let name = digest == nil ? "CRC-16" : "SHA-256"
        return VerificationError(
            .digestMismatch, "the \(name) in the init packet of the \(part.title) does not match \(self.name)")
    }
}

extension NordicPackage {
    /// Checks the digests of all images. The signatures are not checked.
    ///
    /// - Throws: `digest-mismatch`.
    package func checkDigests() throws(VerificationError) {
        for section in sections where !section.digestHolds { throw section.digestMismatch }
    }

    /// Checks the digests of all images with the results of `Verifier.report(on:)`.
    ///
    /// - Throws: `digest-mismatch`.
    package func checkDigests(_ reports: [NordicReport]) throws(VerificationError) {
        for (section, report) in zip(sections, reports) where !report.digestHolds { throw section.digestMismatch }
    }

    /// Checks that the hardware revisions of a bundle, and the required revision, include the hardware of each image in the bundle's package.
    /// An image for any hardware is accepted.
    ///
    /// - Parameters:
    ///   - revisions: the revisions in the manifest of the bundle; nil: any.
    ///   - required: the revision that the user requires; nil: any.
    /// - Throws: `wrong-hardware`.
    package func checkHardware(
        of revisions: HardwareRevisions?, required: UInt16? = nil
    ) throws(VerificationError) {
        for section in sections {
            guard let hardware = section.hardware else { continue }
            let what = "the \(section.part.title) in the package is for hardware \(hardware)"
            if let revisions {
                let isIncluded = UInt16(exactly: hardware).map { revisions.contains($0) } ?? false
                guard isIncluded else {
                    throw VerificationError(.wrongHardware, "\(what), and the bundle is for hardware \(revisions)")
                }
            }
            guard let required, hardware != UInt32(required) else { continue }
            throw VerificationError(.wrongHardware, "\(what), not for \(required)")
        }
    }
}

extension Verifier {
    /// Verifies a Nordic DFU package. The digest of each image must match its init packet, a trusted key must have signed each init packet,
    /// and the policy must accept the package.
    ///
    /// - Throws: `digest-mismatch`, `not-signed`, `unsupported-signature`, `untrusted-key`, `key-out-of-scope`; the errors of the policy.
    public func verify(_ package: NordicPackage) throws(VerificationError) -> VerifiedNordicPackage {
        try verify(package, report(on: package))
    }

    /// Verifies a Nordic DFU package like `verify(_:)`, with the results of `report(on:)` for this package. So each digest and each signature
    /// is checked once.
    package func verify(
        _ package: NordicPackage, _ reports: [NordicReport]
    ) throws(VerificationError) -> VerifiedNordicPackage {
        try package.checkDigests(reports)
        var signers: [KeyID] = []
        for report in reports {
            let key = try report.signer.get()
            guard !report.isOutOfScope else { throw outOfScope(key, "the file is a Nordic DFU package") }
            signers.append(key)
        }
        for signer in Set(signers).sorted() {
            let count = trust.count(of: policy.counted([signer]))
            try policy.check(package, signer: signer, count)
            try trust.policy.check(count)
        }
        return VerifiedNordicPackage(package, signers)
    }

    /// Checks each section of a package, and returns the results in the order of the sections. The conditions of `policy` are not checked.
    public func report(on package: NordicPackage) -> [NordicReport] {
        package.sections.map { section in
            let signer: Result<KeyID, VerificationError>
            do throws(VerificationError) {
                signer = .success(try self.signer(of: section))
            } catch {
                signer = .failure(error)
            }
            let key = try? signer.get()
            return NordicReport(
                digestHolds: section.digestHolds, isOutOfScope: key.map { !coversNordicPackages($0) } ?? false,
                signer: signer)
        }
    }

    private func coversNordicPackages(_ key: KeyID) -> Bool { trust.scope(of: key)?.coversNordicPackages ?? true }

    /// Returns the trusted key that signed an init packet. The packet does not name its signer, so each trusted key is tried.
    ///
    /// - Throws: `not-signed`, `unsupported-signature`, `untrusted-key`.
    private func signer(of section: NordicSection) throws(VerificationError) -> KeyID {
        let packet = "the init packet of the \(section.part.title)"
        switch section.signature {
        case nil: throw VerificationError(.notSigned, "\(packet) is not signed")
        case .unsupported(let type)?:
            throw VerificationError(
                .unsupportedSignature,
                "\(packet) has a signature of the type \(type); expected ECDSA P-256 (type 0)")
        case .ecdsaP256(let signature)?:
            let keys = trust.imageKeys.filter { $0.algorithm == .ecdsaP256 }
            let signer = keys.first { $0.verify(ecdsa: signature, of: section.signedBytes[...]) }
            if let signer { return signer.id }
            throw VerificationError(
                .untrustedKey,
                keys.isEmpty
                    ? "\(packet) is signed with ECDSA P-256, and no trusted key is for this algorithm"
                    : "no trusted key has signed \(packet), or it was changed after it was signed")
        }
    }
}

extension TrustPolicy {
    /// Checks a Nordic DFU package and one of its signers.
    ///
    /// A package does not contain its product or a security counter, so a policy that requires one of them refuses every package. The
    /// hardware is the version of the hardware (Secure DFU) or the revision of the device (Legacy DFU).
    ///
    /// - Throws: `demo-key`, `too-few-signatures`, `wrong-product`, `wrong-hardware`, `counter-too-low`.
    fileprivate func check(
        _ package: NordicPackage, signer: KeyID, _ count: SignerCount
    ) throws(VerificationError) {
        try checkSigners([signer], count)
        if let product {
            throw VerificationError(
                .wrongProduct, "a Nordic DFU package does not name its product; expected \(product)")
        }
        for section in package.sections {
            guard let hardware, section.hardware != UInt32(hardware) else { continue }
            let own = section.hardware.map { "is for hardware \($0)" } ?? "names no hardware"
            throw VerificationError(
                .wrongHardware, "the init packet of the \(section.part.title) \(own), not for \(hardware)")
        }
        if let minimumSecurityCounter, minimumSecurityCounter > 0 {
            throw VerificationError(
                .counterTooLow, "a Nordic DFU package has no security counter; expected \(minimumSecurityCounter)")
        }
    }
}
