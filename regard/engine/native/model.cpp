#include "model.h"

namespace regard {

Embedding Embedding::load(const File& file, const std::string& side) {
  Embedding embedding;
  embedding.vocabulary = file.integer(side + ".vocabulary", 5, MOST_TOKENS);
  embedding.width = file.integer(side + ".embedding_width", 1, MOST_WIDTH);
  embedding.scale = static_cast<float>(file.number(side + ".embedding_scale"));
  embedding.table = file.floats(side + ".embedding", {embedding.vocabulary, embedding.width});
  return embedding;
}

Model::Model(const char* path) : file(path) {
  try {
    quantised = file.flag("int8");
    switch (file.integer("encoder.kind", 0, 2)) {
      case 1: encoder = load_transformer_encoder(file, quantised); break;
      case 2: encoder = load_recurrent_encoder(file, quantised); break;
      default: break;
    }
    decoder = file.integer("decoder.kind", 1, 2) == 1 ? load_transformer_decoder(file, quantised, encoder.get())
                                                       : load_recurrent_decoder(file, quantised, encoder.get());
  } catch (const Refused& reason) {
    throw Refused(std::string(path) + ": not a whole engine file: " + reason.what() + "; prepare the run again");
  }
}

}  // namespace regard
