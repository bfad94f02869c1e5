import OTAClient
import OTAFirmware
import OTASigning

/// An MCUboot image of a file or a package, with the result of its verification.
struct PackagedImage: Encodable, Sendable {
    /// The image number on the device; 0 if the device has one image.
    let imageNumber: UInt32
    /// The file name in a package.
    let name: String?
    /// The board that the package names; this value is not signed.
    let board: String?
    let image: ImageSummary

    init(_ entry: NumberedFile, _ report: MCUbootReport) {
        imageNumber = entry.number
        name = entry.name
        board = entry.board
        image = ImageSummary(entry.file, report)
    }

    /// One row for each value: label and value.
    var rows: [(String, String)] {
        let heading = "\(name ?? "")\(board.map { ", for \($0)" } ?? "")"
        return [("Image \(imageNumber)", heading)] + image.rows
    }

    /// The sentence that reports a verified image.
    func sentence(of file: String, isAlone: Bool) -> String {
        let title = name.map { "\($0) in \(file)" } ?? file
        let number = isAlone && imageNumber == 0 ? "" : ", image \(imageNumber)"
        return "\(title) is verified: MCUboot image \(image.version ?? "")\(number), \(image.size) bytes."
    }

    /// The checked and the unchecked facts, one line each.
    var lines: [String] {
        let unsaid = "product and hardware: an MCUboot image does not name them"
        return (image.mcuboot?.checked ?? []).map { "  Checked: \($0)" }
            + ((image.notes ?? []) + [unsaid]).map { "  Not checked: \($0)" }
    }
}
