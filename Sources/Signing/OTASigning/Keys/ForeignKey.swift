/// Recognizes key files in formats that this module does not read, and names the command that converts them. In the hints, `KEY` stands for
/// the name of the file (`KeyError.at`).
enum ForeignKey {
    /// Returns the error for a text without a PEM block.
    ///
    /// - Parameter isPublic: true if a public key is expected.
    static func refusal(of text: UnsafeRawBufferPointer, isPublic: Bool) -> KeyError {
        let (found, hint) = description(of: text, isPublic) ?? ("no PEM block found", nil)
        return KeyError(.notAKey, found, hint: hint)
    }

    private static func description(of text: UnsafeRawBufferPointer, _ isPublic: Bool) -> (String, hint: String?)? {
        if let der = der(text, isPublic) { return der }
        if text.count == 32, text.contains(where: { $0 >= 0x80 }) {
            // The octal digits are the DER encoding before the bytes of the key (RFC 8410, sections 4 and 7).
            let prefix =
                isPublic
                ? "\\060\\052\\060\\005\\006\\003\\053\\145\\160\\003\\041\\000"
                : "\\060\\056\\002\\001\\000\\060\\005\\006\\003\\053\\145\\160\\004\\042\\004\\040"
            let options = isPublic ? "-pubin -pubout" : ""
            return (
                "the file has 32 bytes, like a raw Ed25519 key; expected PEM",
                "convert it: (printf '\(prefix)'; cat KEY) | openssl pkey -inform DER \(options) -out NEW.pem"
            )
        }
        let starts = { (start: String) in text.starts(with: start.utf8) }
        if starts("PuTTY-User-Key-File-") {
            return (
                "this is a key of PuTTY",
                "convert it: puttygen KEY -O private-openssh -o NEW; then add it to the SSH agent (ssh-add NEW), and give --key agent:ID"
            )
        }
        if starts("ssh-") || starts("ecdsa-sha2-") || starts("sk-") {
            let hint =
                starts("ssh-ed25519")
                ? "add its private key to the SSH agent (ssh-add), then write the public key to a file: otaflash keygen NAME --from agent:ID"
                : "convert it: ssh-keygen -e -m PKCS8 -f KEY > NEW.pub.pem"
            return ("this is a public key of OpenSSH", isPublic ? hint : "give the private key of the same pair")
        }
        if starts("untrusted comment:") {
            return (
                "this is a key or a signature of minisign or signify, whose signatures bundles do not have",
                "create an Ed25519 key: otaflash keygen NAME"
            )
        }
        if starts("{") {
            let export = "export_to_pem(\(isPublic ? "False" : "True, None"))"
            return (
                "this is JSON, such as a JSON Web Key (JWK); expected PEM",
                "convert a JWK with python3-jwcrypto: python3 -c \"from jwcrypto.jwk import JWK; print(JWK.from_json(open('KEY').read()).\(export).decode())\" > NEW.pem"
            )
        }
        if text.starts(with: [0xFF, 0xFE]) || text.starts(with: [0xFE, 0xFF]) {
            return ("the text is UTF-16; expected ASCII", "convert it: iconv -f UTF-16 -t ASCII KEY > NEW.pem")
        }
        return nil
    }

    /// Returns the description of a key or a certificate in DER.
    private static func der(_ bytes: UnsafeRawBufferPointer, _ isPublic: Bool) -> (String, hint: String?)? {
        var whole = DERReader(bytes)
        guard let outer = whole.next(), outer.tag == DERReader.sequence, whole.isAtEnd else { return nil }
        var reader = DERReader(outer.contents)
        guard let first = reader.next() else { return nil }
        let publicHint = "convert it: openssl pkey -pubin -inform DER -in KEY -pubout -out NEW.pub.pem"
        let privateHint = "convert it: openssl pkey -inform DER -in KEY -out NEW.pem"
        if first.tag == DERReader.integer {
            if first.contents.elementsEqual([3]) {
                return (
                    "this is a PKCS#12 file; expected PEM",
                    isPublic
                        ? "write its public key to a file: openssl pkcs12 -in KEY -nokeys | openssl x509 -pubkey -noout > NEW.pub.pem"
                        : "convert it: openssl pkcs12 -in KEY -nocerts -nodes | openssl pkey -out NEW.pem"
                )
            }
            return (
                "this is a private key in DER; expected PEM",
                isPublic
                    ? "write its public key to a file: openssl pkey -inform DER -in KEY -pubout -out NEW.pub.pem"
                    : privateHint
            )
        }
        var inner = DERReader(first.contents)
        guard first.tag == DERReader.sequence, let algorithm = inner.next(), let second = reader.next() else {
            return nil
        }
        switch (algorithm.tag, second.tag) {
        case (DERReader.identifier, DERReader.bitString):
            return (
                "this is a public key in DER; expected PEM",
                isPublic ? publicHint : "give the private key of the same pair"
            )
        case (DERReader.identifier, DERReader.octetString):
            return (
                "this is an encrypted private key in DER; expected PEM",
                "convert it: openssl pkcs8 -topk8 -inform DER -in KEY -out NEW.pem"
            )
        case (DERReader.identifier, _): return nil
        default:
            return (
                "this is a certificate in DER; expected PEM",
                isPublic
                    ? "write its public key to a file: openssl x509 -inform DER -in KEY -pubkey -noout > NEW.pub.pem"
                    : "give the private key of the certificate"
            )
        }
    }

    /// Returns the error for a PEM block whose label is not one of the expected labels.
    ///
    /// - Parameter algorithms: the names of the expected algorithms, for the error message.
    static func refusal(of block: PEMBlock, insteadOf wanted: [String], _ algorithms: String) -> KeyError {
        let label = block.label
        let isPublicWanted = wanted == ["PUBLIC KEY"]
        let found = "the PEM block is '\(label)'; expected '\(wanted.joined(separator: "' or '"))'"
        switch label {
        case "OPENSSH PRIVATE KEY":
            return KeyError(.notAKey, "this is a private key of OpenSSH; \(found)", hint: openSSHHint(block))
        case _ where isPublicWanted && label.hasSuffix("PRIVATE KEY"):
            return KeyError(
                .notAKey, "this is a private key; expected a public key",
                hint: "write its public key to a file: openssl pkey -in KEY -pubout -out NEW.pub.pem")
        case "RSA PUBLIC KEY" where isPublicWanted && algorithms.contains("RSA"):
            return KeyError(
                .notAKey, found, hint: "convert it: openssl rsa -RSAPublicKey_in -in KEY -pubout -out NEW.pub.pem")
        case "RSA PRIVATE KEY", "RSA PUBLIC KEY", "DSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS":
            let algorithm = label.prefix { $0 != " " }
            return KeyError(.wrongAlgorithm, "the key is for \(algorithm); expected \(algorithms)")
        case "PUBLIC KEY":
            return KeyError(
                .notAKey, "this is a public key; a signature needs the private key",
                hint: "give the private key of the same pair")
        case _ where label.hasSuffix("CERTIFICATE"):
            return KeyError(
                .notAKey, "this is a certificate; \(found)",
                hint: isPublicWanted
                    ? "write its public key to a file: openssl x509 -in KEY -pubkey -noout > NEW.pub.pem"
                    : "give the private key of the certificate")
        case "CERTIFICATE REQUEST" where isPublicWanted:
            return KeyError(
                .notAKey, found,
                hint: "write its public key to a file: openssl req -in KEY -pubkey -noout > NEW.pub.pem")
        case _ where label.hasPrefix("PGP "):
            return KeyError(
                .notAKey, "this is a key of OpenPGP; \(found)",
                hint: "sign with gpg-agent as the SSH agent (enable-ssh-support): --key agent:ID")
        default:
            return KeyError(.notAKey, found, hint: "convert it: openssl pkey -in KEY -out NEW.pem")
        }
    }

    /// `ssh-keygen` does not convert Ed25519 keys. The SSH agent signs with them.
    private static func openSSHHint(_ block: PEMBlock) -> String {
        let isEd25519 = block.contents.withUnsafeBytes { bytes in
            let name = Array("ssh-ed25519".utf8)
            return (0..<max(0, bytes.count - name.count)).contains { bytes[$0...].starts(with: name) }
        }
        return isEd25519
            ? "add it to the SSH agent, and sign with the agent: ssh-add KEY; then --key agent:ID (agent: alone lists the IDs)"
            : "convert a copy: cp KEY NEW.pem && ssh-keygen -p -m PKCS8 -f NEW.pem"
    }
}
