package import OTAFirmware

/// An in-toto statement: a claim (the predicate) about files (the subjects).
///
/// Source: https://github.com/in-toto/attestation, `spec/v1/statement.md`.
package struct Statement: Sendable, Hashable {
    /// A file, identified by its digest.
    package struct Subject: Sendable, Hashable {
        /// The name of the file, only for messages. The digest identifies the file.
        package let name: String?
        /// The SHA-256 of the file. The value is nil if the subject has only digests of other algorithms. otaflash does not use digests
        /// of other algorithms.
        package let digest: SHA256Digest?

        package init(name: String, digest: SHA256Digest) {
            self.name = name
            self.digest = digest
        }

        fileprivate init(_ json: JSON) throws(AttestationError) {
            guard let digests = json["digest"]?.members, !digests.isEmpty else {
                throw AttestationEnvelope.malformed("a subject has no digest")
            }
            name = json["name"]?.string
            guard let digest = json["digest"]?["sha256"] else {
                self.digest = nil
                return
            }
            guard let digest = digest.string.flatMap({ Hex.decode($0) }).flatMap({ SHA256Digest(bytes: $0) }) else {
                throw AttestationEnvelope.malformed("the sha256 of a subject is not 64 hexadecimal digits")
            }
            self.digest = digest
        }
    }

    package static let type = "https://in-toto.io/Statement/v1"
    /// The maximum number of subjects.
    package static let maximumSubjects = 1024

    package let subjects: [Subject]
    /// The URI of the predicate's format.
    package let predicateType: String
    /// The claim, as a JSON object.
    package let predicate: JSON

    package init(subjects: [Subject], predicateType: String, predicate: JSON) {
        self.subjects = subjects
        self.predicateType = predicateType
        self.predicate = predicate
    }

    /// Parses the JSON of a statement. Unknown members are ignored.
    ///
    /// `Verifier` calls this initializer only after it has verified a signature of the statement. It therefore never parses the bytes of an
    /// unknown author.
    ///
    /// - Throws: `attestation-malformed`.
    package init(parsing payload: [UInt8]) throws(AttestationError) {
        let json = try AttestationEnvelope.json(payload[...], "the statement")
        guard let type = json["_type"]?.string, type.utf8.elementsEqual(Self.type.utf8) else {
            throw AttestationEnvelope.malformed("the payload is not a statement of the type \(Self.type)")
        }
        guard let list = json["subject"]?.array, (1...Self.maximumSubjects).contains(list.count) else {
            throw AttestationEnvelope.malformed("a statement has 1 to \(Self.maximumSubjects) subjects")
        }
        var subjects: [Subject] = []
        for item in list { subjects.append(try Subject(item)) }
        guard let predicateType = json["predicateType"]?.string, !predicateType.isEmpty else {
            throw AttestationEnvelope.malformed("the statement has no predicateType")
        }
        let predicate = json["predicate"] ?? .object([])
        guard predicate.members != nil else {
            throw AttestationEnvelope.malformed("the predicate is not a JSON object")
        }
        self.init(subjects: subjects, predicateType: predicateType, predicate: predicate)
    }

    /// The statement as JSON.
    package var json: JSON {
        let subjects = subjects.map { subject in
            JSON.object(
                (subject.name.map { [JSON.Member("name", .string($0))] } ?? [])
                    + [
                        JSON.Member(
                            "digest",
                            .object(
                                subject.digest.map { [JSON.Member("sha256", .string($0.description))] } ?? []))
                    ])
        }
        return .object([
            JSON.Member("_type", .string(Self.type)), JSON.Member("subject", .array(subjects)),
            JSON.Member("predicateType", .string(predicateType)), JSON.Member("predicate", predicate),
        ])
    }
}

extension SignedBundle {
    /// The SHA-256 of the whole bundle file. This digest changes if the bundle gets another signature.
    package var fileDigest: SHA256Digest {
        let hash = SHA256()
        envelope.bytes.withUnsafeBytes { hash.update($0) }
        image.withUnsafeBytes { hash.update($0) }
        return hash.finish()
    }

    /// True if the image's digest matches the manifest. This property does not verify a signature.
    package var hasIntactImage: Bool { SHA256.digest(of: image) == envelope.manifest.imageDigest }

    /// Returns the subjects of an attestation of this bundle: the bundle, its image and its manifest.
    ///
    /// - Parameter name: the name of the bundle file, without its folder.
    package func subjects(named name: String) -> [Statement.Subject] {
        [
            Statement.Subject(name: name, digest: fileDigest),
            Statement.Subject(name: "\(name)#image", digest: SHA256.digest(of: image)),
            Statement.Subject(name: "\(name)#manifest", digest: SHA256.digest(of: envelope.manifestBytes)),
        ]
    }
}
