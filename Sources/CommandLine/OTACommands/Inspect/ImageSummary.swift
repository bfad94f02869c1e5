import OTAClient
import OTAFirmware
import OTASigning

/// The properties of a firmware image.
struct ImageSummary: Encodable, Sendable {
    let format: String
    /// The size in bytes, including bytes after the end of the image, such as padding. For Intel HEX, the size of the image, not of the
    /// text.
    let size: UInt32
    let sha256: String
    var product, version: String?
    var securityCounter: UInt32?
    var chip, project, builtWith, builtAt: String?
    /// The verified SHA-256 that the image contains. Nil if the image contains no SHA-256, or if the image is encrypted.
    var carriedSha256: String?
    /// Remarks for the user, for example about properties that were not checked.
    var notes: [String]?
    var mcuboot: MCUbootSummary?

    /// Creates the summary of an image that is not verified.
    init(_ image: [UInt8], _ description: FirmwareDescription) {
        format = description.format.name
        size = description.size
        sha256 = SHA256.digest(of: image).description
        product = description.product?.text
        version = description.versionText
        notes = description.notes.isEmpty ? nil : description.notes
        switch description.details {
        case .raw, .nordicDFU: break
        case .espressif(let image):
            chip = image.chip
            carriedSha256 = image.digest?.description
            securityCounter = image.application?.secureVersion
            project = image.application?.project
            builtWith = image.application.map { "ESP-IDF \($0.frameworkVersion)" }
            builtAt = image.application.map { "\($0.date) \($0.time)" }
        case .mcuboot(let image):
            carriedSha256 = image.digest?.description
            securityCounter = image.securityCounter
        }
    }

    /// Creates the summary of an MCUboot image, with the result of its verification.
    init(_ file: MCUbootFile, _ report: MCUbootReport) {
        format = ImageFormat.mcuboot.name
        size = UInt32(clamping: file.file.count)
        sha256 = SHA256.digest(of: file.file).description
        version = file.image.version.description
        securityCounter = file.image.securityCounter
        carriedSha256 = file.image.digest?.description
        let unchecked = report.unchecked(of: file)
        notes = unchecked.isEmpty ? nil : unchecked
        mcuboot = MCUbootSummary(file.image, report)
    }

    mutating func add(note: String) { notes = (notes ?? []) + [note] }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] {
        var rows = [("Image", "\(format), \(size) bytes"), ("Image SHA-256", sha256)]
        let rest = [
            ("Project", project), ("Version", version), ("Chip", chip),
            ("Security counter", securityCounter.map { "\($0), from the image" }), ("Built with", builtWith),
            ("Built at", builtAt), ("Embedded digest", carriedSha256.map { "\($0), valid" }),
        ]
        for (label, value) in rest { if let value { rows.append((label, value)) } }
        if let mcuboot { rows += mcuboot.rows }
        for note in notes ?? [] { rows.append(("Note", note)) }
        return rows
    }
}

/// An MCUboot image from an image file or a package, with the result of its verification.
struct PackagedImage: Encodable, Sendable {
    /// The image number of MCUboot; 0 on a device with one image.
    let imageNumber: UInt32
    /// The name of the image's file in the package; nil if the image is not from a package.
    let name: String?
    /// The board name in the package's manifest; nil if the manifest does not contain one. The manifest is not signed, so the name can be
    /// false.
    let board: String?
    let image: ImageSummary

    init(_ entry: NumberedFile, _ report: MCUbootReport) {
        imageNumber = entry.number
        name = entry.name
        board = entry.board
        image = ImageSummary(entry.file, report)
    }

    /// The rows of the summary for the user. Each row has a title and a value.
    var rows: [(String, String)] {
        let heading = "\(name ?? "")\(board.map { ", for \($0)" } ?? "")"
        return [("Image \(imageNumber)", heading)] + image.rows
    }

    /// Returns the sentence that reports a verified image.
    ///
    /// - Parameters:
    ///   - file: the name of the image file or of the package.
    ///   - isAlone: true if the file contains only this image. In this case, the sentence omits the image number 0.
    func sentence(of file: String, isAlone: Bool) -> String {
        let title = name.map { "\($0) in \(file)" } ?? file
        let number = isAlone && imageNumber == 0 ? "" : ", image \(imageNumber)"
        return "\(title) is verified: MCUboot image \(image.version ?? "")\(number), \(image.size) bytes."
    }

    /// The checked and the unchecked properties of the image, one on each line.
    var lines: [String] {
        let missing = "product and hardware: an MCUboot image does not name them"
        return (image.mcuboot?.checked ?? []).map { "  Checked: \($0)" }
            + ((image.notes ?? []) + [missing]).map { "  Not checked: \($0)" }
    }
}
