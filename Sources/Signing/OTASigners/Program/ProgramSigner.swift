internal import OTAFirmware
public import OTASigning

/// An Ed25519 or ML-DSA signer that calls a program of the user for each signature. The program can be, for example, a script that calls a
/// cloud service.
///
/// The program is called with one argument and the environment variable `OTAFLASH_SIGNER=1`:
///
/// - `PROGRAM public-key` prints the public key as PEM text.
/// - `PROGRAM sign` reads the message from standard input to its end, and prints the signature: the raw bytes, or their Base64 or hex
///   digits. For an ML-DSA key, the environment variable `OTAFLASH_SIGNATURE_CONTEXT` contains the context string, which can be empty.
public struct ProgramSigner: Signer {
    public let publicKey: PublicKey
    private let child: ChildProgram

    /// The default time limit of one call of the program.
    public static let limit = Duration.seconds(120)

    /// Asks the program for its public key.
    ///
    /// - Parameters:
    ///   - program: the path of the program, or a name to search for in PATH. The text must not contain arguments.
    ///   - limit: the time limit of each call.
    /// - Throws: `signer-failed`, `signer-protocol`; `wrong-algorithm` for a key other than Ed25519 and ML-DSA;
    ///   `small-order`.
    public init(_ program: String, limit: Duration = Self.limit) throws(KeyError) {
        child = ChildProgram(program: program, limit: limit)
        let text = SecretBytes(copying: try child.output("public-key"))
        do {
            publicKey = try PublicKey(pem: text)
        } catch {
            let isWrong = [.wrongAlgorithm, .smallOrder].contains(error.code)
            throw KeyError(
                isWrong ? error.code : .signerProtocol, "\(child.title("public-key")): \(error.context)",
                hint: isWrong ? error.hint : "print the public key as PEM text: -----BEGIN PUBLIC KEY-----")
        }
    }

    /// Asks the program for the signature of `message`.
    ///
    /// - Throws: `signer-failed`, `signer-protocol`.
    public func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
        let output = try child.output("sign", input: message, context: domain.context)
        let length = publicKey.algorithm.signatureLength
        guard let signature = Self.signature(in: output, length: length) else {
            throw KeyError(
                .signerProtocol,
                "\(child.title("sign")) printed \(output.count) bytes; expected a signature of \(length) bytes",
                hint: "print \(length) raw bytes, or their Base64 or hex digits, and nothing else")
        }
        return signature
    }

    /// Returns the signature in the program's output. The output can be the raw bytes, or their Base64 or hex digits with white space.
    /// Returns nil for any other output.
    package static func signature(in output: [UInt8], length: Int = 64) -> [UInt8]? {
        SignatureEncoding.decodings(of: output).first { $0.count == length }
    }
}

extension ChildProgram {
    /// The name of the call in messages, such as `exec:./kms sign`.
    func title(_ argument: String) -> String { "exec:\(program) \(argument)" }

    /// Runs the program, and converts a `Failure` to a `KeyError`.
    ///
    /// - Throws: `signer-failed`, `signer-protocol`.
    fileprivate func output(
        _ argument: String, input: [UInt8] = [], context: [UInt8] = []
    ) throws(KeyError) -> [UInt8] {
        let call = title(argument)
        do throws(Failure) {
            return try run(argument, input: input, context: String(decoding: context, as: UTF8.self))
        } catch {
            switch error {
            case .cannotStart(let reason):
                throw KeyError(
                    .signerFailed, "\(call): the program cannot be started: \(reason)",
                    hint: "give the path of an executable file without arguments: exec:./PROGRAM (chmod +x PROGRAM)")
            case .exit(let status): throw KeyError(.signerFailed, "\(call) ended with exit status \(status)")
            case .signal(let signal): throw KeyError(.signerFailed, "\(call) was ended by signal \(signal)")
            case .timeout:
                throw KeyError(.signerFailed, "\(call) did not end within \(limit.components.seconds) s")
            case .tooLong:
                throw KeyError(
                    .signerProtocol, "\(call) printed more than \(Self.maximumOutput) bytes",
                    hint: "print only the public key or the signature; print everything else to standard error")
            }
        }
    }
}
