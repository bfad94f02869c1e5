internal import OTAFirmware
public import SystemPackage

/// The conditions for all updates that the keys of a trust folder verify. They are in the file ``name`` of the folder
/// (docs/command-line.md, "The policy of a trust folder"). Example:
///
///     # two keys sign each release
///     signatures = 2
///     downgrade = refuse
///
/// A line that is not understood is an error, which stops the command: it can be a condition.
public struct FolderPolicy: Sendable {
    /// The name of the file.
    public static let name = "trust.policy"

    /// The number of signers that a file must have (``SignerCount``), 1 to 4, and the policy that requires it. Nil means one.
    public private(set) var requiredSignatures: (count: Int, file: FilePath)?
    /// The policy that refuses a version that is lower than the running one. Nil means that such a version is accepted, with a warning.
    public private(set) var downgradeRefusal: FilePath?

    /// Creates the policy without conditions.
    init() {}

    /// Parses the text of a policy.
    ///
    /// - Throws: `bad-trust-policy`. The message contains the path of the file, and for an error in one line the line's number.
    public init(parsing text: [UInt8], of file: FilePath) throws(KeyError) {
        let settings = try SettingsText<Word>(parsing: text, of: file, code: .badTrustPolicy)
        let count = try settings.value(of: .signatures, "a number from 1 to 4") { text in
            (1...4).first { text == "\($0)" }
        }
        requiredSignatures = count.map { ($0, file) }
        downgradeRefusal = try settings.value(of: .downgrade, "refuse") { $0 == "refuse" ? file : nil }
        guard requiredSignatures != nil || downgradeRefusal != nil else {
            throw settings.refusal("\(file): the file has no line 'signatures' or 'downgrade', so it requires nothing")
        }
    }

    private enum Word: String, CaseIterable { case signatures, downgrade }

    /// Adds the conditions of another policy. For each condition, the stricter one applies.
    mutating func add(_ other: FolderPolicy) {
        if let theirs = other.requiredSignatures, theirs.count > requiredSignatures?.count ?? 0 {
            requiredSignatures = theirs
        }
        downgradeRefusal = downgradeRefusal ?? other.downgradeRefusal
    }

    /// Checks the number of signers of a file.
    ///
    /// - Throws: `too-few-signatures`.
    func check(_ signers: SignerCount) throws(VerificationError) {
        guard let (count, file) = requiredSignatures, signers.signers < count else { return }
        throw VerificationError(
            .tooFewSignatures,
            "signed by \(signers.signers) of the \(count) trusted keys that \(file) requires\(signers.remark)")
    }

    /// True for a name such as `trust.policy.txt` or `trust.polcy`. The backup file of an editor ends with `~`.
    static func isMisspelt(_ file: String) -> Bool {
        file != name && !file.hasSuffix("~") && file.lowercased().hasPrefix("trust.pol")
    }

    /// Returns the path of the policy in a folder. Returns nil only if the file does not exist.
    static func path(in folder: FilePath) -> FilePath? { folder.appending(name).unlessAbsent }
}

extension FolderPolicy: CustomStringConvertible {
    /// The conditions, as a text for the user. The text is empty without conditions.
    public var description: String {
        let texts = [
            requiredSignatures.map { "signatures = \($0.count)" }, downgradeRefusal.map { _ in "downgrade = refuse" },
        ]
        return texts.compactMap { $0 }.joined(separator: ", ")
    }
}
